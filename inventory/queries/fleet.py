# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""All nodes with how much of them is used, their state, zones and aggregates, for a picture."""

from collections import defaultdict
from itertools import chain
from typing import Any, NamedTuple

import sqlalchemy as sa

from inventory import aggregates, compute_nodes, services
from inventory.objects.amounts import allocatable
from inventory.tables import compute_nodes as table

# The states of a host in metrics, lists and pages: where several are true, the last of them counts.
# UNSERVED hosts have no compute service.
STATES = ("up", "disabled", "maintenance", "down", "forced_down", "unserved")
UP, DISABLED, MAINTENANCE, DOWN, FORCED_DOWN, UNSERVED = STATES
# In these a host is lost for instances, new ones and those that it has.
LOST = (DOWN, FORCED_DOWN, UNSERVED)
RESOURCES = (*compute_nodes.RESOURCES,)
_SERVICE = ("host", "disabled", "disabled_reason", "maintenance", "forced_down", "last_seen_up")
_COLUMNS = ("host", "hypervisor_hostname", *chain(*compute_nodes.RESOURCES.values()))


class FleetNode(NamedTuple):
    """A node: shares are what is used of vCPUs, memory and disk, of what may be allocated."""

    host: str
    node: str
    state: str
    zones: tuple[str, ...]
    aggregates: tuple[str, ...]
    shares: tuple[float, float, float]

    @property
    def fullest(self) -> int:
        """The index of the resource of which least is left."""
        return max(range(len(RESOURCES)), key=self.shares.__getitem__)

    def index_of(self, resource: str) -> int:
        """Return the index of a resource, which may be called fullest."""
        return self.fullest if resource == "fullest" else RESOURCES.index(resource)


def read_fleet(connection: sa.Connection, limit: float, default_zone: str) -> list[FleetNode]:
    """Return all nodes by the names of their hosts; limit is that of services.is_up()."""
    records = aggregates.everything(connection)
    zones, members = aggregates.zones_by_host(records), defaultdict[str, list[str]](list)
    for each in records:
        for host in each.hosts:
            members[host].append(each.name)
    columns = (*_SERVICE, "created_at")
    rows = services.all_live(connection, services.COMPUTE[0], columns)
    known, c = {row.host: row for row in rows}, table.c
    query = sa.select(*(c[name] for name in _COLUMNS)).where(c.deleted == 0)
    return sorted(
        FleetNode(
            host,
            node,
            state_of(known.get(host), limit),
            tuple(sorted(zones.get(host) or (default_zone,))),
            tuple(sorted(members.get(host, ()))),
            (used_share(*figures[:3]), used_share(*figures[3:6]), used_share(*figures[6:])),
        )
        for host, node, *figures in connection.execute(query)
    )


def state_of(row: Any, limit: float) -> str:
    """Return which of STATES a host is in; row is of services.all_live(), or None.

    Metrics ask the columns of all hosts the same, see scheduler.monitoring.host_metrics.
    """
    if row is None:
        return UNSERVED
    if row.forced_down:
        return FORCED_DOWN
    if not services.is_up(row, limit):
        return DOWN
    if row.maintenance is not None:
        return MAINTENANCE
    return DISABLED if row.disabled else UP


def used_share(total: int, used: int, ratio: float | None) -> float:
    """Return the used share of what may be allocated: all of it where nothing may be.

    A resource of which a node has and uses nothing is not used.
    """
    bound = allocatable(total, ratio)
    return used / bound if bound > 0 else float(total > 0 or used > 0)
