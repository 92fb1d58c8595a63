# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""One NUMA cell of a guest on one cell of a host.

Source: behaviour reference 1.11. Pinned CPUs and their memory are never over-committed; floating
ones up to the ratios, though no guest against itself. reserved is how many host CPUs the emulator
threads want for themselves.
"""

import math
from typing import NamedTuple

from inventory.fits import fits, limit
from inventory.numa import pages as numa_pages
from inventory.numa import pinning as numa_pinning
from scheduler.objects.numa import InstanceNUMACell, NUMACell


class Ratios(NamedTuple):
    """How far a host over-commits; NaN when nobody has said."""

    cpu: float
    ram: float


def shortage(
    cell: NUMACell, guest: InstanceNUMACell, ratios: Ratios, reserved: int = 0
) -> str | None:
    """Return in words and figures why a guest cell does not fit a host cell, None if it does."""
    lack = numa_pinning.shortage(cell, guest, reserved) if guest.has_pinned_cpus else None
    if lack is None and not guest.cpu_pinning_requested:
        lack = _shortage_of_shares(cell, guest, ratios)
    return lack or numa_pages.shortage(cell, guest)


def placed(cell: NUMACell, guest: InstanceNUMACell, reserved: int = 0) -> InstanceNUMACell:
    """Return what becomes of a guest cell on a host cell that it fits."""
    pinning = numa_pinning.pinning(cell, guest, reserved) if guest.has_pinned_cpus else None
    return InstanceNUMACell(
        id=cell.id,
        memory=guest.memory,
        cpuset=set(guest.cpuset),
        pcpuset=set(guest.pcpuset),
        cpuset_reserved=(pinning.reserved or None) if pinning else None,
        pagesize=numa_pages.page_size(cell, guest) if guest.pagesize else None,
        cpu_pinning=pinning.cpus if pinning else None,
        cpu_policy=guest.cpu_policy,
        cpu_thread_policy=guest.cpu_thread_policy,
    )


def _shortage_of_shares(cell: NUMACell, guest: InstanceNUMACell, ratios: Ratios) -> str | None:
    cpus, wanted = len(cell.cpuset), len(guest.cpuset)
    if not fits(cpus, cell.cpu_usage, ratios.cpu, wanted):
        return f"needs {wanted} CPUs, {_left(cpus, cell.cpu_usage, ratios.cpu, wanted)}"
    memory, wanted = cell.memory, guest.memory
    if not fits(memory, cell.memory_usage, ratios.ram, wanted):
        return f"needs {wanted} MB, {_left(memory, cell.memory_usage, ratios.ram, wanted)}"
    return None


def _left(total: int, used: int, ratio: float, wanted: int) -> str:
    if wanted > total:
        return f"the cell has only {total}"
    if math.isnan(ratio):
        return f"and how far the {total} may be over-committed is not known"
    return f"{limit(total, ratio) - used:.15g} left of {total} x {ratio:.15g}"
