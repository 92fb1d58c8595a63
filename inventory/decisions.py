# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Saved decisions: a row for each, and the snapshots of the host table they were made from.

Both are added many at a time and never changed. A decision needs the snapshots of one log
(snapshot_log) up to its own (snapshot_number); a log is deleted when no decision needs it.
"""

import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

import sqlalchemy as sa

from inventory.dialects import current_time, utc_moment
from inventory.rows import CHUNK, chunks, insert_many, where_given
from inventory.tables import decision_inputs, decision_instances, decisions

# Bytes of a row. Servers may refuse statements of more than a megabyte, and bytes grow when quoted.
PIECE = 500_000
MAX_PIECES = 100
# Age in seconds from which a log without decisions is deleted, longer than any request takes:
# snapshots are written before the decisions that were made on later ones.
UNUSED_AGE = 300.0
MAX_LISTED = 10_000
_LONGEST = 255
# At the end of hosts that are cut. Releases before have no number.
_MORE = ", ... ({} more)"
_LONGEST_UUID = 36
# A larger number is not the id of a row.
_MAX_DIGITS = 18
_HIDDEN = ("document", "vcpus", "memory_mb", "disk_mb")
_SHOWN = [each for each in decisions.c if each.name not in _HIDDEN]


# Not frozen, since it takes five times as long to make a frozen one.
@dataclass(slots=True)
class DecisionRow:
    """A decision to be saved; ended is on the monotonic clock, hosts are the chosen ones.

    vcpus, memory_mb and disk_mb are what each instance takes, None where it takes nothing more.
    """

    snapshot_log: str
    snapshot_number: int
    ended: float
    scheduler: str
    outcome: str
    milliseconds: float
    conflicts: int
    document: bytes
    request_id: str | None = None
    project_id: str | None = None
    instance_uuids: Sequence[str | None] = ()
    hosts: Sequence[str] = ()
    vcpus: int | None = None
    memory_mb: int | None = None
    disk_mb: int | None = None


@dataclass(frozen=True, slots=True)
class SnapshotBatch:
    """Some snapshots of a log as bytes, with the decisions that were written together with them.

    first is the lowest of the numbers of the snapshots.
    """

    snapshot_log: str
    first: int
    data: bytes
    decided: bytes = b""


def add(
    connection: sa.Connection, decided: Sequence[DecisionRow], snapshots: Sequence[SnapshotBatch]
) -> None:
    """Save decisions and at least one batch of snapshots, unless they are there already."""
    c = decision_inputs.c
    there = sa.exists().where(
        c.snapshot_log == snapshots[0].snapshot_log, c.first == snapshots[0].first, c.piece == 0
    )
    now, is_done = connection.execute(sa.select(utc_moment(), there)).one()
    zero = now - timedelta(seconds=time.monotonic())
    if is_done:
        return
    connection.execute(sa.insert(decision_inputs), [*_pieces(snapshots, now)])
    if not decided:
        return
    insert_many(connection, decisions, [_row(each, zero) for each in decided])
    ids = _ids(connection, decided)
    instances = [
        {"decision_id": ids[each.snapshot_log, each.snapshot_number], "instance_uuid": uuid}
        for each in decided
        # Searches take them without letter case.
        for uuid in {
            uuid.casefold(): uuid for uuid in filter(None, reversed(each.instance_uuids))
        }.values()
        if len(uuid) <= _LONGEST_UUID and uuid.isascii()
    ]
    if instances:
        insert_many(connection, decision_instances, instances)


def find(connection: sa.Connection, text: str, limit: int = 20) -> list[sa.Row[Any]]:
    """Return the newest decisions with this id, instance uuid or request id."""
    c = decisions.c
    of_instance = sa.select(decision_instances.c.decision_id).where(
        decision_instances.c.instance_uuid == text
    )
    conditions: list[sa.ColumnElement[bool]] = [c.id.in_(of_instance), c.request_id == text]
    if text.isdecimal() and len(text) <= _MAX_DIGITS:
        conditions.insert(0, c.id == int(text))
    # One after the other, since each has an index.
    for each in conditions:
        found = connection.execute(_newest(limit).where(each)).all()
        if found:
            return [*found]
    return []


def listed(
    connection: sa.Connection,
    limit: int = 50,
    outcome: str | None = None,
    project_id: str | None = None,
    since: datetime | None = None,
) -> list[sa.Row[Any]]:
    """Return the newest decisions, the newest first, without their documents; since is in UTC."""
    c = decisions.c
    query = where_given(_newest(limit), (c.outcome, outcome), (c.project_id, project_id))
    if since is not None:
        query = query.where(c.decided_at >= since)
    return [*connection.execute(query).all()]


def document(connection: sa.Connection, number: int) -> bytes | None:
    """Return the document of the decision with this id, None for an unknown id."""
    query = sa.select(decisions.c.document).where(decisions.c.id == number)
    found: bytes | None = connection.scalar(query)
    return found


def in_order(
    connection: sa.Connection, since: datetime, known: Container[int] = ()
) -> Iterator[tuple[Any, bytes]]:
    """Yield the decisions since a time in UTC, the oldest first, with their documents.

    Those of one process come in the order in which it has made them. Ids that are known are left
    out.
    """
    c = decisions.c
    columns = (c.id, c.decided_at, c.snapshot_log, c.snapshot_number)
    query = sa.select(*columns).where(c.decided_at >= since)
    ids = _ids_in_order(connection.execute(query))
    for some in chunks([each for each in ids if each not in known]):
        found = connection.execute(sa.select(*_SHOWN, c.document).where(c.id.in_(some))).all()
        by_id = {row.id: row for row in found}
        # Others may be pruned meanwhile.
        yield from ((by_id[each], by_id[each].document) for each in some if each in by_id)


def snapshots(connection: sa.Connection, log: str, last: int) -> list[bytes]:
    """Return the snapshots of a log up to a number, perhaps some more, as they were added.

    They are in no order. Some may be missing: those of unfinished requests, and lost ones.
    """
    c = decision_inputs.c
    query = sa.select(c.first, c.data).where(c.snapshot_log == log, c.first.between(0, last))
    rows = connection.execute(query.order_by(c.first, c.piece)).all()
    return [
        b"".join(row.data for row in pieces)
        for _, pieces in groupby(rows, key=lambda row: row.first)
    ]


def batch(connection: sa.Connection, log: str, first: int) -> bytes | None:
    """Return the decisions of a batch of snapshots, None if they are not there any more."""
    c = decision_inputs.c
    query = sa.select(c.data).where(c.snapshot_log == log, c.first == _key_of_decided(first))
    return b"".join(connection.scalars(query.order_by(c.piece))) or None


def prune(connection: sa.Connection, max_age: float, max_number: int) -> bool:
    """Delete some of what is too old or too much; return whether there may be more of it.

    Several processes may do so at a time.
    """
    now = current_time(connection)
    return _prune_decisions(connection, now - timedelta(seconds=max_age), max_number) or (
        _prune_inputs(connection, now - timedelta(seconds=UNUSED_AGE))
    )


def _pieces(snapshots: Iterable[SnapshotBatch], now: datetime) -> Iterator[dict[str, Any]]:
    for each in snapshots:
        for first, data in ((each.first, each.data), (_key_of_decided(each.first), each.decided)):
            for number, start in enumerate(range(0, len(data), PIECE)):
                yield {
                    "snapshot_log": each.snapshot_log,
                    "first": first,
                    "piece": number,
                    "written_at": now,
                    "data": data[start : start + PIECE],
                }


def _key_of_decided(first: int) -> int:
    """Return the number in place of first of the decisions of a batch of snapshots."""
    return -1 - first


def _row(decided: DecisionRow, zero: datetime) -> dict[str, Any]:
    """Return the columns of a decision; zero is the time at which time.monotonic() was 0."""
    hosts = decided.hosts if len(decided.hosts) == 1 else [*dict.fromkeys(decided.hosts)]
    return {
        "snapshot_log": decided.snapshot_log,
        "snapshot_number": decided.snapshot_number,
        "decided_at": zero + timedelta(seconds=decided.ended),
        "scheduler": decided.scheduler,
        "outcome": decided.outcome,
        "milliseconds": decided.milliseconds,
        "conflicts": decided.conflicts,
        "document": decided.document,
        "request_id": decided.request_id and decided.request_id[:_LONGEST],
        "project_id": decided.project_id and decided.project_id[:_LONGEST],
        "instances": len(decided.instance_uuids),
        "hosts": _first_hosts(hosts) or None,
        "vcpus": decided.vcpus,
        "memory_mb": decided.memory_mb,
        "disk_mb": decided.disk_mb,
    }


def _first_hosts(names: Sequence[str]) -> str:
    """Return names in a text that fits its column, with the number of those that do not."""
    text = ", ".join(names)
    if len(text) <= _LONGEST:
        return text
    shown = text[: _LONGEST - len(_MORE.format(len(names)))].rpartition(", ")[0]
    return shown + _MORE.format(len(names) - len(shown.split(", ")))


def _ids_in_order(rows: Iterable[Any]) -> list[int]:
    """Return the ids of decisions in order: of one process no time is before an earlier one."""
    latest: dict[str, datetime] = {}
    found = []
    for row in sorted(rows, key=_place_in_log):
        process, *place = _place_in_log(row)
        latest[process] = max(row.decided_at, latest.get(process, row.decided_at))
        found.append((latest[process], process, *place, row.id))
    return [number for *_, number in sorted(found)]


def _place_in_log(row: Any) -> tuple[str, int, int]:
    """Return the process, the log and the number of the snapshot that a decision was made from."""
    process, _, log_id = row.snapshot_log.rpartition("-")
    if not log_id.isdecimal():
        return row.snapshot_log, 0, row.snapshot_number
    return process, int(log_id), row.snapshot_number


def _ids(
    connection: sa.Connection, decided: Sequence[DecisionRow]
) -> Mapping[tuple[str, int], int]:
    """Return the ids of decisions by their snapshots."""
    c = decisions.c
    query = sa.select(c.snapshot_number, c.id)
    found: dict[tuple[str, int], int] = {}
    for log in {each.snapshot_log for each in decided}:
        numbers = [each.snapshot_number for each in decided if each.snapshot_log == log]
        # Few others are between them.
        between = c.snapshot_number.between(min(numbers), max(numbers))
        rows = connection.execute(query.where(c.snapshot_log == log, between))
        found |= {(log, number): decision_id for number, decision_id in rows}
    return found


def _newest(limit: int) -> sa.Select[Any]:
    c = decisions.c
    return sa.select(*_SHOWN).order_by(c.decided_at.desc(), c.id.desc()).limit(limit)


def _prune_decisions(connection: sa.Connection, until: datetime, max_number: int) -> bool:
    c = decisions.c
    # Uses the index of times only: the rows are large.
    beyond = sa.select(c.decided_at).order_by(c.decided_at.desc()).offset(max_number).limit(1)
    newest = connection.scalar(beyond)
    # Other processes that prune wait here, and lock in the same order.
    old = sa.select(c.id).order_by(c.decided_at, c.id).limit(CHUNK).with_for_update()
    gone = [
        *connection.scalars(old.where(c.decided_at <= (max(until, newest) if newest else until)))
    ]
    if gone:
        of_them = decision_instances.c.decision_id.in_(gone)
        connection.execute(sa.delete(decision_instances).where(of_them))
        connection.execute(sa.delete(decisions).where(c.id.in_(gone)))
    return bool(gone)


def _prune_inputs(connection: sa.Connection, until: datetime) -> bool:
    """Delete a part of a log that no decision needs and nothing was added to since."""
    c = decision_inputs.c
    same_log = decisions.c.snapshot_log == c.snapshot_log
    needed = sa.exists().where(same_log).correlate(decision_inputs)
    unneeded = sa.select(c.snapshot_log).where(~needed).group_by(c.snapshot_log)
    log = connection.scalar(unneeded.having(sa.func.max(c.written_at) < until).limit(1))
    if log is None:
        return False
    # Locked in the same order by all processes that prune.
    of_log = c.snapshot_log == log
    query = sa.select(c.first).where(of_log).order_by(c.first, c.piece)
    firsts = [*connection.scalars(query.limit(MAX_PIECES).with_for_update())]
    if firsts:
        connection.execute(sa.delete(decision_inputs).where(of_log, c.first <= firsts[-1]))
    return True
