# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A cloud's own trace: the saved decisions since a time, and what became of their instances."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from inventory import decisions
from inventory.queries.instance_ends import InstanceEnds, instance_ends
from scheduler.decision.types import Decision
from scheduler.history.saved_decision import DecisionIncomplete, DecisionReader, from_database
from scheduler.history.serialization import DecisionDocument
from scheduler.history.tagged_json import encode
from scheduler.hosts.table import HostTable
from scheduler.operators.simulation.arrival import Arrival, TraceError

_REPORTED = 100


@dataclass(frozen=True)
class DecisionTrace:
    """The hosts before the first decision, the requests, and what was decided about each.

    fingerprints are those of the decisions. leaves_at says when instances leave that were there
    before, by uuid. Times are in seconds since 1970. unreadable is how many decisions are left out,
    since another release has written them or they are of another kind.
    """

    hosts: HostTable
    arrivals: Sequence[Arrival]
    fingerprints: Sequence[str]
    leaves_at: dict[str, float]
    unreadable: int

    def is_as_decided(self, number: int, decision: Decision) -> bool:
        """Return whether the decision about an arrival is the saved one to the last bit."""
        return fingerprint(decision) == self.fingerprints[number]


def fingerprint(decision: Decision) -> str:
    """Return a text that only the same decision has; warnings do not count, as in a replay."""
    document = encode(replace(decision, warnings=()))
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def read_trace(
    connection: sa.Connection,
    since: datetime,
    lease: float,
    progress: Callable[[int], object] = lambda _: None,
) -> DecisionTrace:
    """Return the trace since a time in UTC; progress is told how many decisions were read.

    An instance of which nothing is known any more leaves when its claim has expired, lease seconds
    after the decision. Raises TraceError without a decision whose hosts are known.
    """
    found: list[tuple[Any, DecisionDocument]] = []
    hosts: HostTable | None = None
    unreadable = 0
    reader = DecisionReader(connection)
    for row, data in decisions.in_order(connection, since):
        document = _readable(reader, row, data)
        # A rebuild places nothing.
        if document is None or document.request.spec.is_rebuild:
            unreadable += document is None
            continue
        if hosts is None:
            hosts = _hosts(connection, row)
            if hosts is None:
                continue
        found.append((row, document))
        if not len(found) % _REPORTED:
            progress(len(found))
    progress(len(found))
    if hosts is None:
        raise TraceError("there is no saved decision since that time whose hosts are known")
    placed = {uuid for row in hosts.rows() for uuid in hosts.instances.on(row)}
    uuids = {uuid for _, each in found for uuid in each.request.instance_uuids if uuid}
    ends = instance_ends(connection, uuids | placed)
    deleted_at = {uuid: _seconds(time) for uuid, time in ends.deleted_at.items()}
    return DecisionTrace(
        hosts,
        [_arrival(row.decided_at, document, ends, lease) for row, document in found],
        [fingerprint(document.decision) for _, document in found],
        {uuid: deleted_at[uuid.lower()] for uuid in placed if uuid.lower() in deleted_at},
        unreadable,
    )


def _arrival(
    decided_at: datetime, document: DecisionDocument, ends: InstanceEnds, lease: float
) -> Arrival:
    time, leaves_at = _seconds(decided_at), {}
    for uuid in filter(None, document.request.instance_uuids):
        if (deleted_at := ends.deleted_at.get(uuid.lower())) is not None:
            leaves_at[uuid] = max(time, _seconds(deleted_at))
        elif uuid.lower() not in ends.there:
            leaves_at[uuid] = time + lease
    return Arrival(time, document.request, leaves_at)


def _hosts(connection: sa.Connection, row: Any) -> HostTable | None:
    try:
        return from_database(connection, row).hosts
    # Others go on deleting old decisions.
    except DecisionIncomplete:
        return None


def _readable(reader: DecisionReader, row: Any, data: bytes) -> DecisionDocument | None:
    try:
        return reader.read(row, data)
    except ValueError:
        return None


def _seconds(time: datetime) -> float:
    return time.replace(tzinfo=UTC).timestamp()
