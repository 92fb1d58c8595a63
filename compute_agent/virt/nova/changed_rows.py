# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Digests of a cell's rows by host: what has changed, whatever the clocks of Nova's services say.

Polls read the rows with new stamps, which is cheap and soon. A service whose clock is behind writes
stamps that look old, and a row that is deleted may have no new one.
"""

import time
from collections.abc import Container, Mapping
from typing import NamedTuple

import sqlalchemy as sa

from inventory.nova.database import NovaDatabase

# Seconds between two digests, or more: the server may need no more than this share of its time.
INTERVAL, SHARE = 2.0, 0.1
# By table. What the services of Nova write there changes one of these columns; heartbeats do not.
_COLUMNS = {
    "instances": ("uuid", "updated_at", "node", "vm_state", "task_state", "instance_type_id"),
    "compute_nodes": ("id", "updated_at", "vcpus_used", "memory_mb_used", "local_gb_used"),
    "services": ("id", "disabled", "disabled_reason", "forced_down"),
}
Digests = Mapping[str, Mapping[str, object]]


class ChangedHosts(NamedTuple):
    """The hosts of which rows in these tables differ from the last time."""

    instances: set[str]
    compute_nodes: set[str]
    services: set[str]


NONE = ChangedHosts(set(), set(), set())


class _EveryHost:
    def __contains__(self, name: object) -> bool:
        return True


EVERY_HOST: Container[str] = _EveryHost()


class DigestTimer:
    """Takes digests when they are due."""

    def __init__(self) -> None:
        self._due = 0.0

    def take(self, connection: sa.Connection, cell: NovaDatabase, now: bool) -> Digests | None:
        """Return the digests of all tables by host, None if they are not due and not asked for."""
        began = time.monotonic()
        if not now and began < self._due:
            return None
        found = {
            name: cell.fingerprints(connection, name, *columns)
            for name, columns in _COLUMNS.items()
        }
        took = time.monotonic() - began
        self._due = began + max(INTERVAL, took / SHARE)
        return found


def changed_hosts(old: Digests, new: Digests) -> ChangedHosts:
    return ChangedHosts(*(_differing(old[name], new[name]) for name in ChangedHosts._fields))


def _differing(old: Mapping[str, object], new: Mapping[str, object]) -> set[str]:
    return {host for host in old.keys() | new.keys() if old.get(host) != new.get(host)}
