# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Hosts of a simulation: made-up ones, and those of a cloud without their instances."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from inventory.objects.aggregate import FAILURE_DOMAIN, Aggregate
from scheduler.hosts.table import HostTable
from scheduler.operators.occupancy import give_back_promises, reported, use


@dataclass(frozen=True, slots=True)
class HostKind:
    """A number of equal hosts: vCPUs, MB of memory, GB of disk, allocation ratio of vCPUs."""

    count: int
    vcpus: int
    memory_mb: int
    disk_gb: int
    cpu_allocation_ratio: float = 1.0


def make_hosts(kinds: Sequence[HostKind], rack_size: int = 1) -> HostTable:
    """Return empty hosts, which are called host-00001 and so on.

    Of each kind so many after the other are one failure domain, each for itself by default.
    """
    hosts = HostTable()
    for kind in kinds:
        first = len(hosts) + 1
        names = [f"host-{number:05}" for number in range(first, first + kind.count)]
        rows = hosts.add_each([(name, name) for name in names])
        for name, value in {
            "vcpus_total": kind.vcpus,
            "total_usable_ram_mb": kind.memory_mb,
            "free_ram_mb": kind.memory_mb,
            "total_usable_disk_gb": kind.disk_gb,
            "free_disk_mb": 1024 * kind.disk_gb,
            "cpu_allocation_ratio": kind.cpu_allocation_ratio,
            "ram_allocation_ratio": 1.0,
            "disk_allocation_ratio": 1.0,
            "hypervisor_version": 0,
            "stats": {},
        }.items():
            hosts.write(rows, name, [value] * len(rows))
        hosts.write(rows, "node_id", [row + 1 for row in rows])
        racks = [f"rack-{(first + at // rack_size * rack_size):05}" for at in range(kind.count)]
        named = [Aggregate(name=rack, metadata={FAILURE_DOMAIN: rack}) for rack in racks]
        hosts.write(rows, "aggregates", [[each] if rack_size > 1 else [] for each in named])
    keep_alive(hosts)
    return hosts


def keep_alive(hosts: HostTable) -> None:
    """Make the heartbeats of all hosts as young as can be: no time passes for them."""
    hosts.fill("heartbeat_age", np.zeros(hosts.size))


def keep_down(hosts: HostTable, liveness_limit: float) -> None:
    """Make the hosts whose last heartbeat is older than liveness_limit seconds stay down.

    keep_alive() would let them take instances.
    """
    is_silent = ~(np.abs(hosts.heartbeat_age) <= liveness_limit)
    hosts.fill("forced_down", hosts.forced_down | is_silent)


def remove_instances(hosts: HostTable) -> None:
    """Remove all instances, and what they take; NUMA cells and devices stay as they are.

    What hosts hold for standbys and reservations goes, too, as far as it is known.
    """
    give_back_promises(hosts)
    for row in [*hosts.rows()]:
        for instance in hosts.instances.on(row).values():
            use(hosts, row, reported(instance), -1)
        hosts.set(row, "num_io_ops", 0)
        hosts.instances.replace(row, {})
