# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of an audit: guests and reserves to usage, meminfo to memory.

Everything is added up in whole MiB. Only the two columns that are in GiB are rounded, once, at the
end and upwards: what is taken is never understated, and adding up in another order or counting
twice gives the same figure.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from compute_agent.virt.driver import MIB_PER_GIB, Guest, NodeFacts

KIB_PER_MIB = 1024


@dataclass(frozen=True, slots=True)
class Reserved:
    """What a host keeps for itself; memory and disk in MiB."""

    vcpus: int = 0
    memory_mb: int = 0
    disk_mb: int = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """The columns of compute_nodes that an audit recounts, named as they are."""

    vcpus_used: int
    memory_mb_used: int
    local_gb_used: int
    free_ram_mb: int
    free_disk_gb: int
    running_vms: int
    current_workload: int
    stats: dict[str, str]


def count(facts: NodeFacts, guests: Collection[Guest], reserved: Reserved) -> Usage:
    """Return the usage of a node, counted from zero.

    A guest counts in full whatever its state, since it may be started at any moment. The free
    figures may be negative, where more was promised than is there, and must stay so: readers
    compute total * ratio - (total - free).
    """
    memory_mb = reserved.memory_mb + sum(guest.memory_mb for guest in guests)
    disk_mb = reserved.disk_mb + sum(guest.disk_mb for guest in guests)
    local_gb_used = -(-disk_mb // MIB_PER_GIB)
    return Usage(
        vcpus_used=reserved.vcpus + sum(guest.vcpus for guest in guests),
        memory_mb_used=memory_mb,
        local_gb_used=local_gb_used,
        free_ram_mb=facts.memory_mb - memory_mb,
        free_disk_gb=facts.local_gb - local_gb_used,
        running_vms=len(guests),
        # Tasks are what a compute service does to a guest; a hypervisor knows nothing of them.
        current_workload=0,
        stats=_stats(guests),
    )


def _stats(guests: Collection[Guest]) -> dict[str, str]:
    """Return the counters; their values are texts, as in every row that Nova has written."""
    counters = Counter(f"num_vm_{guest.vm_state}" for guest in guests)
    counters.update(f"num_proj_{guest.project_id}" for guest in guests if guest.project_id)
    counters.update(num_instances=len(guests), io_workload=0)
    return {name: str(number) for name, number in sorted(counters.items())}


@dataclass(frozen=True, slots=True)
class HostMemory:
    """Memory of a host in MiB; used is None where its source does not tell."""

    total_mb: int
    used_mb: int | None


def parse_meminfo(text: str) -> dict[str, int]:
    """Return the figures of /proc/meminfo by name, in KiB; lines that make no sense are left out.

    The few lines without a unit (HugePages_*) are counts of pages.
    """
    figures = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdecimal():
            figures[name.strip()] = int(words[0])
    return figures


def host_memory(meminfo: Mapping[str, int], libvirt_mb: int) -> HostMemory:
    """Return total and used memory, both from one source.

    meminfo holds the hypervisor's own /proc/meminfo in KiB, and is empty for one that has none,
    such as libvirt's test driver; then libvirt's total is all there is.

    Otherwise MemTotal is the total: it is the RAM that the kernel really has for guests. libvirt
    adds up what the zones of the NUMA nodes manage, and a kernel that initialises its memory
    lazily hands pages to the zones only as they are touched: there libvirt said 6234 MiB where
    MemTotal was 24105, and the difference between the one total and the other's free memory was
    -16437 MiB. Where /proc/meminfo is the smaller, as in a container, it is the limit that holds.
    """
    total = meminfo.get("MemTotal", 0)
    if total <= 0:
        return HostMemory(libvirt_mb, None)
    used = min(max(total - _available(meminfo), 0), total)
    return HostMemory(total // KIB_PER_MIB, used // KIB_PER_MIB)


def _available(meminfo: Mapping[str, int]) -> int:
    """Return the KiB that could be had without swapping; kernels before 3.14 do not say."""
    if "MemAvailable" in meminfo:
        return meminfo["MemAvailable"]
    return sum(meminfo.get(name, 0) for name in ("MemFree", "Buffers", "Cached"))


def disagree(one_mb: int, other_mb: int) -> bool:
    """Tell whether two totals differ by more than a tenth of the larger."""
    return abs(one_mb - other_mb) * 10 > max(one_mb, other_mb)
