# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Host CPUs for the pinned CPUs of a guest cell, by thread policy.

Source: behaviour reference 1.11. prefer, the default, uses whole cores if possible; require uses
nothing else; isolate gives each CPU a core of its own. reserved is the number of host CPUs for the
emulator threads alone, 0 or 1.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from inventory.errors import counted
from inventory.objects.numa import InstanceNUMACell, NUMACell

REQUIRE, ISOLATE = "require", "isolate"


@dataclass(frozen=True, slots=True)
class Pinning:
    """The host CPU of each guest CPU, and the host CPUs of the emulator threads."""

    cpus: dict[int, int]
    reserved: set[int]


def shortage(cell: NUMACell, guest: InstanceNUMACell, reserved: int) -> str | None:
    """Return in words why the pinned CPUs of a guest do not fit, None if they do."""
    wanted, free = len(guest.pcpuset) + reserved, cell.avail_pcpus
    if wanted > free:
        return f"needs {wanted} CPUs to pin, {free} free of {len(cell.pcpuset)}"
    policy = guest.cpu_thread_policy
    if policy == REQUIRE and guest.pcpuset:
        return _shortage_of_threads(cell, guest)
    if policy == ISOLATE:
        return _shortage_of_cores(cell, wanted)
    return None


def pinning(cell: NUMACell, guest: InstanceNUMACell, reserved: int) -> Pinning:
    """Return the CPUs for a guest that fits."""
    wanted = sorted(guest.pcpuset)
    if guest.cpu_thread_policy == ISOLATE:
        chosen = _whole_cores(cell)
        emulator = chosen[len(wanted) : len(wanted) + reserved]
    else:
        cores = _free_cores(cell)
        chosen = _packed(cores, len(wanted)) or sorted(cell.free_pcpus)
        emulator = _remaining(cores, set(chosen[: len(wanted)]))[:reserved]
    return Pinning(dict(zip(wanted, chosen, strict=False)), set(emulator))


def with_siblings(cell: NUMACell, cpus: Iterable[int]) -> set[int]:
    """Return these CPUs and all that share a core with one of them."""
    return set(cpus).union(*(core for core in cell.siblings if not core.isdisjoint(cpus)))


def _shortage_of_threads(cell: NUMACell, guest: InstanceNUMACell) -> str | None:
    if not cell.has_threads:
        return "needs cores with several threads, the host's have one each"
    cores = _free_cores(cell)
    if _packed(cores, len(guest.pcpuset), least=2) is not None:
        return None
    free = (len(_even(cores, threads)) for threads in range(2, max(map(len, cores), default=0) + 1))
    return (
        f"needs {len(guest.pcpuset)} CPUs on threads of the same cores,"
        f" {max(free, default=0)} free in equal parts"
    )


def _shortage_of_cores(cell: NUMACell, wanted: int) -> str | None:
    # Free CPUs cannot be counted: the siblings of a pinned CPU are neither in use nor available
    # (bug 1889633), except where one set of CPUs serves all guests.
    if cell.has_threads and cell.cpuset != cell.pcpuset:
        return "needs cores of its own, which threads in separate sets of CPUs do not allow"
    free = len(_whole_cores(cell))
    return f"needs {counted(wanted, 'core')} of its own, {free} free" if wanted > free else None


def _free_cores(cell: NUMACell) -> list[list[int]]:
    """Return the free threads of each core that has any."""
    free, cores = cell.free_pcpus, []
    for core in cell.siblings:
        threads = core & free
        if threads:
            cores.append(sorted(threads))
            free -= threads
    # Old agents report no siblings of a core that has one thread.
    return cores + [[cpu] for cpu in sorted(free)]


def _whole_cores(cell: NUMACell) -> list[int]:
    """Return the first CPU of each core of which all threads are free."""
    free, firsts = cell.free_pcpus, []
    for core in cell.siblings:
        if core and core <= free:
            firsts.append(min(core))
            free -= core
    return firsts + sorted(free.difference(*cell.siblings))


def _packed(cores: list[list[int]], count: int, least: int = 1) -> list[int] | None:
    """Return at least count CPUs, as many of each core as possible and the same number of each.

    None if that uses fewer than least of a core. Compute hosts do the same, and would refuse more.
    """
    for threads in range(max(map(len, cores), default=0), least - 1, -1):
        usable = _even(cores, threads)
        if len(usable) >= count:
            return usable
    return None


def _even(cores: list[list[int]], threads: int) -> list[int]:
    """Return this number of CPUs of each core that has them."""
    return list(chain.from_iterable(core[:threads] for core in cores if len(core) >= threads))


def _remaining(cores: list[list[int]], taken: set[int]) -> list[int]:
    """Return the remaining CPUs, those of the most used cores first."""
    left = [[cpu for cpu in core if cpu not in taken] for core in cores]
    left.sort(key=len)
    return list(chain.from_iterable(left))
