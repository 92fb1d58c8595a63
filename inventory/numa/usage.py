# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What is in use of a host's NUMA cells when a guest comes or goes.

Source: behaviour reference 3.6 and the usage rules of compute hosts. Topologies are shared by all
who read them, so a new one is made.
"""

from dataclasses import replace

from inventory.numa.pages import pages_needed, smallest_pages
from inventory.numa.pinning import ISOLATE, with_siblings
from scheduler.objects.numa import (
    InstanceNUMACell,
    InstanceNUMATopology,
    NUMACell,
    NUMAPagesTopology,
    NUMATopology,
)


def with_usage(host: NUMATopology, fitted: InstanceNUMATopology, sign: int = 1) -> NUMATopology:
    """Return the host with a fitted guest on it, or without it where sign is -1.

    Nothing falls below 0, whatever is removed.
    """
    cells = list(host.cells)
    for guest in fitted.cells:
        cells = [_used(cell, guest, sign) if cell.id == guest.id else cell for cell in cells]
    return NUMATopology(cells)


def _used(cell: NUMACell, guest: InstanceNUMACell, sign: int) -> NUMACell:
    pinned = _pinned(cell, guest)
    return replace(
        cell,
        cpu_usage=max(0, cell.cpu_usage + sign * len(guest.cpuset)),
        memory_usage=max(0, cell.memory_usage + sign * guest.memory),
        pinned_cpus=cell.pinned_cpus | pinned if sign > 0 else cell.pinned_cpus - pinned,
        mempages=_pages(cell, guest, sign),
    )


def _pinned(cell: NUMACell, guest: InstanceNUMACell) -> set[int]:
    """Return the host CPUs that a guest keeps from others."""
    cpus = {*(guest.cpu_pinning or {}).values(), *(guest.cpuset_reserved or ())}
    return with_siblings(cell, cpus) if guest.cpu_thread_policy == ISOLATE else cpus


def _pages(cell: NUMACell, guest: InstanceNUMACell, sign: int) -> list[NUMAPagesTopology]:
    smallest = smallest_pages(cell)
    size_kb = guest.pagesize or (smallest.size_kb if smallest else None)
    return [
        replace(pages, used=max(0, pages.used + sign * pages_needed(guest, size_kb)))
        if pages.size_kb == size_kb
        else pages
        for pages in cell.mempages
    ]
