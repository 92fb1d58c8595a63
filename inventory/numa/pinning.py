# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Host CPUs for the pinned CPUs of a guest cell, by thread policy.

Source: behaviour reference 1.11. prefer, the default, uses whole cores if possible; require uses
nothing else; isolate gives each CPU a core of its own. reserved is the number of host CPUs for the
emulator threads alone, 0 or 1.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from inventory.errors import counted
from inventory.objects.numa import InstanceNUMACell, NUMACell

REQUIRE, ISOLATE = "require", "isolate"


@dataclass(frozen=True, slots=True)
class Pinning:
    """The host CPU of each guest CPU, and the host CPUs of the emulator threads."""

    cpus: dict[int, int]
    reserved: set[int]


class FreeCpus:
    """The CPUs of a host cell that no guest is pinned to."""

    def __init__(self, cell: NUMACell) -> None:
        self.cell = cell

    @cached_property
    def count(self) -> int:
        return self.cell.avail_pcpus

    @cached_property
    def cores(self) -> list[list[int]]:
        """The free threads of each core that has any."""
        free, cores = self.cell.free_pcpus, []
        for core in self.cell.siblings:
            threads = core & free
            if threads:
                cores.append(sorted(threads))
                free -= threads
        # Old agents report no siblings of a core that has one thread.
        return cores + [[cpu] for cpu in sorted(free)]

    @cached_property
    def whole_cores(self) -> list[int]:
        """The first CPU of each core of which all threads are free.

        Compute hosts leave out cores that have fewer threads than others of the cell.
        """
        free, firsts = self.cell.free_pcpus, []
        most = max(map(len, self.cell.siblings), default=1)
        for core in self.cell.siblings:
            if len(core) == most and core <= free:
                firsts.append(min(core))
                free -= core
        return firsts + (sorted(free.difference(*self.cell.siblings)) if most == 1 else [])

    @cached_property
    def in_equal_parts(self) -> int:
        """The most CPUs that are the same number, two or more, on each of some cores."""
        most = max(map(len, self.cores), default=0)
        return max((len(_even(self.cores, threads)) for threads in range(2, most + 1)), default=0)


def shortage(free: FreeCpus, guest: InstanceNUMACell, reserved: int) -> str | None:
    """Return in words why the pinned CPUs of a guest do not fit, None if they do."""
    wanted = len(guest.pcpuset) + reserved
    if wanted > free.count:
        return f"needs {wanted} CPUs to pin, {free.count} free of {len(free.cell.pcpuset)}"
    policy = guest.cpu_thread_policy
    if policy == REQUIRE:
        return _shortage_of_threads(free, len(guest.pcpuset))
    if policy == ISOLATE:
        if not guest.pcpuset:
            # So do compute hosts.
            return "needs cores of its own but pins no CPU, which every host refuses"
        return _shortage_of_cores(free, wanted)
    return None


def pinning(free: FreeCpus, guest: InstanceNUMACell, reserved: int) -> Pinning:
    """Return the CPUs for a guest that fits."""
    wanted = sorted(guest.pcpuset)
    if guest.cpu_thread_policy == ISOLATE:
        chosen = free.whole_cores
        emulator = chosen[len(wanted) : len(wanted) + reserved]
    else:
        cores = free.cores
        chosen = _packed(cores, len(wanted)) or sorted(free.cell.free_pcpus)
        emulator = _remaining(cores, set(chosen[: len(wanted)]))[:reserved]
    return Pinning(dict(zip(wanted, chosen, strict=False)), set(emulator))


def with_siblings(cell: NUMACell, cpus: Iterable[int]) -> set[int]:
    """Return these CPUs and all that share a core with one of them."""
    return set(cpus).union(*(core for core in cell.siblings if not core.isdisjoint(cpus)))


def _shortage_of_threads(free: FreeCpus, wanted: int) -> str | None:
    if not free.cell.has_threads:
        return "needs cores with several threads, but each core of the host has only one"
    most = free.in_equal_parts
    # Compute hosts want threads for a cell of a mixed guest that pins nothing, too.
    if max(wanted, 1) <= most:
        return None
    return f"needs {wanted} CPUs on threads of the same cores, {most} free in equal parts"


def _shortage_of_cores(free: FreeCpus, wanted: int) -> str | None:
    cell, most = free.cell, len(free.whole_cores)
    # Free CPUs cannot be counted: the siblings of a pinned CPU are neither in use nor available
    # (bug 1889633), except where one set of CPUs serves all guests.
    if cell.has_threads and cell.cpuset != cell.pcpuset:
        return "needs cores of its own, which threads in separate sets of CPUs do not allow"
    return f"needs {counted(wanted, 'core')} of its own, {most} free" if wanted > most else None


def _packed(cores: list[list[int]], count: int) -> list[int] | None:
    """Return at least count CPUs, as many of each core as possible and the same number of each.

    None if there are not that many. Compute hosts do the same, and would refuse more.
    """
    for threads in range(max(map(len, cores), default=0), 0, -1):
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
