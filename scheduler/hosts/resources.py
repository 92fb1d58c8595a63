# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""vCPUs, memory and disk of all hosts, in that order and in whole units, MB for the latter two."""

from typing import NamedTuple

import numpy as np

from inventory.fits import limit
from scheduler.hosts.columns import Column, Weights
from scheduler.hosts.table import HostTable

# The columns that resources() reads.
COLUMNS = (
    "vcpus_total",
    "cpu_allocation_ratio",
    "vcpus_used",
    "total_usable_ram_mb",
    "ram_allocation_ratio",
    "free_ram_mb",
    "total_usable_disk_gb",
    "disk_allocation_ratio",
    "free_disk_mb",
)


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
    """Return vCPUs, memory and disk; a host with an absurd ratio has nothing of the resource."""
    ram, disk = hosts.total_usable_ram_mb, hosts.total_usable_disk_gb * 1024
    with np.errstate(all="ignore"):
        return [
            _resource(hosts.vcpus_total, hosts.cpu_allocation_ratio, hosts.vcpus_used),
            _resource(ram, hosts.ram_allocation_ratio, ram - hosts.free_ram_mb),
            _resource(disk, hosts.disk_allocation_ratio, disk - hosts.free_disk_mb),
        ]


def _resource(total: Column, ratio: Column, used: Column) -> Resource:
    # What instances take is whole, so a fraction of a limit is of no use.
    limits = np.floor(limit(total, ratio))
    limits[~((limits > 0) & (limits < np.inf))] = 0.0
    return Resource(total, limits, np.where(limits, 1 / limits, 0.0), limits - used)
