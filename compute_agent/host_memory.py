# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How much memory a host has and uses, from /proc/meminfo and from what libvirt says."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

KIB_PER_MIB = 1024


@dataclass(frozen=True, slots=True)
class HostMemory:
    """Memory of a host in MiB; used is None where its source does not say."""

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
    such as libvirt's test driver; then libvirt's total counts.

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


def xen_memory(
    meminfo: Mapping[str, int], libvirt_mb: int, dom0_kib: int, guests_kib: Iterable[int]
) -> HostMemory:
    """Return total and used memory of a host with Xen, from what each running domain has in KiB.

    The kernel whose /proc/meminfo can be read is that of domain 0 and knows nothing of the rest of
    the machine: libvirt has the total, and what that kernel could give away is free. Guests count
    in full, and so does domain 0 where there is no meminfo of it.
    """
    dom0 = max(dom0_kib - max(_available(meminfo), 0), 0)
    return HostMemory(libvirt_mb, (sum(guests_kib) + dom0) // KIB_PER_MIB)


def _available(meminfo: Mapping[str, int]) -> int:
    """Return the KiB that could be had without swapping; kernels before 3.14 do not say."""
    if "MemAvailable" in meminfo:
        return meminfo["MemAvailable"]
    return sum(meminfo.get(name, 0) for name in ("MemFree", "Buffers", "Cached"))


def disagree(one_mb: int, other_mb: int) -> bool:
    """Return whether two totals differ by more than a tenth of the larger."""
    return abs(one_mb - other_mb) * 10 > max(one_mb, other_mb)
