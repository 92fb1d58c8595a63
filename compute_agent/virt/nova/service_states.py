# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The states of a cell's compute services, as Nova has them."""

from collections.abc import Container, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from inventory.nova import computes
from inventory.nova.database import NovaDatabase
from inventory.services import ServiceState

HEALTHY = ServiceState()


class ServiceStates:
    """States by host. limit is the age in seconds up to which a heartbeat counts as alive."""

    def __init__(self, limit: float) -> None:
        # Replaced when it changes, so that readers need no lock.
        self.by_host: dict[str, ServiceState] = {}
        # Those that are not healthy.
        self._unusual: set[str] = set()
        self._limit = limit

    def read(
        self, connection: sa.Connection, cell: NovaDatabase, now: datetime, since: datetime
    ) -> Sequence[Any]:
        """Return the rows that matter, for apply()."""
        seen_since = now - timedelta(seconds=self._limit)
        return computes.unusual_services(connection, cell, since, seen_since)

    def apply(self, rows: Iterable[Any], now: datetime, hosts: Container[str]) -> set[str]:
        """Take the states from rows, all rows of hosts; return the hosts of which they changed."""
        old = self.by_host
        # Who is no longer among the unusual ones is healthy again.
        found: dict[str, ServiceState | None] = dict.fromkeys(self._unusual, HEALTHY)
        found |= dict.fromkeys(host for host in old if host in hosts)
        for row in rows:
            found[row.host] = None if row.deleted else self._state(row, now)
        self._unusual = {host for host, each in found.items() if each not in (None, HEALTHY)}
        changed = {host for host, each in found.items() if old.get(host) != each}
        if changed:
            new = {**old, **found}
            self.by_host = {host: each for host, each in new.items() if each is not None}
        return changed

    def _state(self, row: Any, now: datetime) -> ServiceState:
        reason = None
        if row.disabled:
            reason = "disabled in Nova" + (
                f": {row.disabled_reason}" if row.disabled_reason else ""
            )
        alive = computes.is_alive(row, now, self._limit)
        return ServiceState(reason, bool(row.forced_down), alive)
