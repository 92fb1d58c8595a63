# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""vCPUs, memory and disk: what hosts have and use of them, in the units of requests."""

from typing import Any, NamedTuple

import numpy as np

from inventory.fits import limit
from scheduler.hosts.columns import Column, Mask, Rows, Weights
from scheduler.hosts.host_state import HostState
from scheduler.hosts.limits import Limits
from scheduler.hosts.table import HostTable


class ResourceKind(NamedTuple):
    """A resource: what requests and limits call it, its columns, and its name in words.

    column has what is free where counts_free is set, else what is used. One of total, and of the
    limit, is as much as unit of what requests and column count.
    """

    name: str
    words: tuple[str, str]
    total: str
    ratio: str
    column: str
    limit: str
    counts_free: bool = True
    unit: int = 1

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that total, usage and limit of hosts follow from."""
        return self.total, self.ratio, self.column

    def amounts(
        self, hosts: HostTable | HostState, rows: Rows | Mask | None = None
    ) -> tuple[Any, Any]:
        """Return total and usage in the unit of requests: of all or some rows, or of one host."""
        total, counted = getattr(hosts, self.total), getattr(hosts, self.column)
        if rows is not None:
            total, counted = total[rows], counted[rows]
        total = self._in_request_unit(total)
        return total, total - counted if self.counts_free else counted

    def limits(self, limits: Limits, rows: Rows) -> Weights:
        """Return the limits that filters have set of some rows, in the unit of requests."""
        return np.asarray(self._in_request_unit(getattr(limits, self.limit)[rows]))

    def _in_request_unit(self, amounts: Any) -> Any:
        return amounts if self.unit == 1 else amounts * self.unit


VCPUS = ResourceKind(
    name="vcpus",
    words=("vCPU", "vCPUs"),
    total="vcpus_total",
    ratio="cpu_allocation_ratio",
    column="vcpus_used",
    limit="vcpu",
    counts_free=False,
)
MEMORY = ResourceKind(
    name="memory_mb",
    words=("MB of memory", "MB of memory"),
    total="total_usable_ram_mb",
    ratio="ram_allocation_ratio",
    column="free_ram_mb",
    limit="memory_mb",
)
DISK = ResourceKind(
    name="disk_mb",
    words=("MB of disk", "MB of disk"),
    total="total_usable_disk_gb",
    ratio="disk_allocation_ratio",
    column="free_disk_mb",
    limit="disk_gb",
    unit=1024,
)
KINDS = (VCPUS, MEMORY, DISK)
# The columns that resources() reads.
COLUMNS = tuple(name for kind in KINDS for name in kind.columns)


class Resource(NamedTuple):
    """What hosts have of a resource, physically and with over-commit, and what is free of it.

    per_limit is 1 divided by the limit, 0 for a host without the resource.
    """

    total: Column
    limit: Weights
    per_limit: Weights
    free: Weights

    def rows(self, rows: slice) -> "Resource":
        """Return the resource of some hosts."""
        return Resource(*(each[rows] for each in self))


def resources(hosts: HostTable) -> list[Resource]:
    """Return the KINDS in their order; a host with an absurd ratio has nothing of a resource."""
    with np.errstate(all="ignore"):
        return [_resource(*kind.amounts(hosts), getattr(hosts, kind.ratio)) for kind in KINDS]


def _resource(total: Column, used: Column, ratio: Column) -> Resource:
    # What instances take is whole, so a fraction of a limit is of no use.
    limits = np.floor(limit(total, ratio))
    limits[~((limits > 0) & (limits < np.inf))] = 0.0
    return Resource(total, limits, np.where(limits, 1 / limits, 0.0), limits - used)
