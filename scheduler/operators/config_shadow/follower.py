# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Follows the saved decisions, and counts what another configuration decides otherwise."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from inventory import decisions
from inventory.dialects import current_time
from inventory.engine import Database
from scheduler.decision.types import Decision
from scheduler.history.saved_decision import DecisionReader
from scheduler.history.serialization import DecisionDocument
from scheduler.host_cache.cache import HostCache
from scheduler.hosts.table import HostTable
from scheduler.operators.fleet_usage import fleet_usage
from scheduler.operators.simulation.shadow_fleet import ShadowFleet
from scheduler.operators.simulation.simulation import Decide

# How long after its answer a decision may be saved; and how long before it a claim is made at most.
_LATE = timedelta(minutes=1)
# How many of the requests that are decided otherwise are kept, the last ones.
_SHOWN = 20


@dataclass(slots=True)
class _Counts:
    """Numbers of requests; moves are about instances that were there before, and not decided."""

    requests: int = 0
    same: int = 0
    moves: int = 0
    unreadable: int = 0
    refused: int = 0
    refused_by_shadow: int = 0


@dataclass(frozen=True, slots=True)
class _Followed:
    row: Any
    document: DecisionDocument

    @property
    def uuids(self) -> list[str]:
        return [uuid for uuid in self.document.request.instance_uuids if uuid]


class Follower:
    """Decides by decide about all that is decided from now on; raises DatabaseUnavailable.

    The hosts of the cache are refreshed by each step.
    """

    def __init__(self, database: Database, host_cache: HostCache, decide: Decide) -> None:
        self._database = database
        self._host_cache = host_cache
        self._decide = decide
        self._counts = _Counts()
        self._fleet = ShadowFleet()
        self._different: deque[dict[str, Any]] = deque(maxlen=_SHOWN)
        # When each decision was made that may be read again, by its id.
        self._seen: dict[int, datetime] = {}
        self._began, _ = database.read(lambda connection: self._read(connection, datetime.max))
        # When each instance was first seen on the hosts.
        self._known = dict.fromkeys(_uuids(self._hosts()), datetime.min)

    def step(self) -> None:
        """Decide about all that was decided since the last step; raises DatabaseUnavailable."""
        now, found = self._database.read(lambda connection: self._read(connection, self._began))
        hosts = self._hosts()
        new = [each for each in found if not self._is_move(each)]
        self._counts.moves += len(found) - len(new)
        view = self._fleet.view(hosts, {uuid for each in new for uuid in each.uuids})
        for each in new:
            decision = self._fleet.decide(view, each.document.request, self._decide)
            self._compare(each, decision)
        self._known = {uuid: self._known.get(uuid, now) for uuid in _uuids(hosts)}

    def document(self) -> dict[str, Any]:
        """Return what was found so far, as JSON has it, with both fleets as they are now."""
        hosts = self._hosts()
        mix = hosts.flavor_mix
        return {
            **asdict(self._counts),
            "real": asdict(fleet_usage(hosts, mix)),
            "shadow": asdict(fleet_usage(self._fleet.view(hosts), mix)),
            "different": [*self._different],
        }

    def _hosts(self) -> HostTable:
        with self._host_cache.current(fresh=True) as hosts:
            return hosts.detached()

    def _read(self, connection: sa.Connection, began: datetime) -> tuple[datetime, list[_Followed]]:
        """Return the time, in UTC, and what was decided from began on and is new."""
        now = current_time(connection)
        since = max(began, now - 2 * _LATE)
        rows = decisions.in_order(connection, since, self._seen)
        found = [*self._new(rows, DecisionReader(connection))]
        self._seen = {number: at for number, at in self._seen.items() if at >= since}
        return now, found

    def _new(
        self, rows: Iterator[tuple[Any, bytes]], reader: DecisionReader
    ) -> Iterator[_Followed]:
        for row, data in rows:
            self._seen[row.id] = row.decided_at
            try:
                document = reader.read(row, data)
            except ValueError:
                self._counts.unreadable += 1
                continue
            # A rebuild places nothing.
            if not document.request.spec.is_rebuild:
                yield _Followed(row, document)

    def _is_move(self, followed: _Followed) -> bool:
        early = followed.row.decided_at - _LATE
        return any(self._known.get(uuid, early) < early for uuid in followed.uuids)

    def _compare(self, followed: _Followed, decision: Decision) -> None:
        self._counts.requests += 1
        saved = followed.document.decision
        self._counts.refused += saved.shortage is not None
        self._counts.refused_by_shadow += decision.shortage is not None
        real, shadow = chosen_hosts(saved), chosen_hosts(decision)
        if real == shadow:
            self._counts.same += 1
            return
        self._different.append(
            {
                "decision": followed.row.id,
                "request_id": followed.row.request_id,
                "decided_at": followed.row.decided_at.isoformat(timespec="seconds"),
                "hosts": real,
                "hosts_of_shadow": shadow,
            }
        )


def _uuids(hosts: HostTable) -> set[str]:
    return {uuid for row in hosts.instances.occupied() for uuid in hosts.instances.on(row)}


def chosen_hosts(decision: Decision) -> Sequence[str]:
    """Return the hosts of a decision, one for each instance; none where it is refused."""
    if decision.shortage is not None:
        return []
    return [each.chosen.host for each in decision.placements]
