# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""One NUMA cell of a guest on one cell of a host: whether it fits, what it gets, what it uses.

Source: behaviour reference 1.11 and 3.6. Pinned CPUs and their memory are never over-committed;
floating ones up to the ratios, though no guest against itself. reserved is the number of host CPUs
for the emulator threads alone.
"""

import math
from dataclasses import replace
from typing import NamedTuple

from inventory.fits import fits, limit
from inventory.numa import pinning as numa_pinning
from inventory.numa.pinning import ISOLATE, FreeCpus, with_siblings
from inventory.objects.numa import (
    InstanceNUMACell,
    InstanceNUMATopology,
    NUMACell,
    NUMAPagesTopology,
    NUMATopology,
)

SMALL, LARGE, ANY = -1, -2, -3
_NAMES = {SMALL: "the smallest size", LARGE: "a large size", ANY: "any size"}


class Ratios(NamedTuple):
    """The over-commit ratios of a host; NaN when unknown."""

    cpu: float
    ram: float


def shortage(
    free: FreeCpus, guest: InstanceNUMACell, ratios: Ratios, reserved: int = 0
) -> str | None:
    """Return in words and figures why a guest cell does not fit a host cell, None if it does."""
    cell = free.cell
    lack = numa_pinning.shortage(free, guest, reserved) if guest.has_pinned_cpus else None
    if lack is None and not guest.cpu_pinning_requested:
        lack = _shortage_of_shares(cell, guest, ratios)
    return lack or memory_shortage(cell, guest)


def placed(cell: NUMACell, guest: InstanceNUMACell, reserved: int = 0) -> InstanceNUMACell:
    """Return a guest cell as it is on a host cell that it fits."""
    pinning = (
        numa_pinning.pinning(FreeCpus(cell), guest, reserved) if guest.has_pinned_cpus else None
    )
    return replace(
        guest,
        id=cell.id,
        cpuset=set(guest.cpuset),
        pcpuset=set(guest.pcpuset),
        cpuset_reserved=(pinning.reserved or None) if pinning else None,
        pagesize=page_size(cell, guest) if guest.pagesize else None,
        cpu_pinning=pinning.cpus if pinning else None,
    )


def page_size(cell: NUMACell, guest: InstanceNUMACell) -> int | None:
    """Return the size in KB of the pages for a guest that requests a size, None if none fit."""
    memory_kb = guest.memory * 1024
    for pages in _allowed_pages(cell, guest.pagesize or ANY):
        if pages.free_kb >= memory_kb and memory_kb % pages.size_kb == 0:
            return pages.size_kb
    return None


def memory_shortage(cell: NUMACell, guest: InstanceNUMACell) -> str | None:
    """Return in words why the pages or the pinned memory of a guest do not fit, None if they do.

    The over-commit of the memory of floating guests is not judged here.
    """
    if guest.pagesize:
        if page_size(cell, guest) is not None:
            return None
        wanted = _NAMES.get(guest.pagesize, f"{guest.pagesize} KB")
        usable = ((pages.free, pages.size_kb) for pages in _allowed_pages(cell, guest.pagesize))
        found = ", ".join(f"{count} of {size_kb} KB" for count, size_kb in usable) or "none"
        return f"needs {guest.memory} MB in whole pages of {wanted}, free are {found}"
    pages = _smallest_pages(cell)
    if pages is not None:
        count = pages.free if guest.has_pinned_cpus else pages.total
        memory_kb = guest.memory * 1024
        if memory_kb <= count * pages.size_kb and memory_kb % pages.size_kb == 0:
            return None
        return f"needs {guest.memory} MB in whole pages, usable are {count} of {pages.size_kb} KB"
    if guest.has_pinned_cpus and guest.memory > cell.avail_memory:
        return f"needs {guest.memory} MB, {cell.avail_memory} free of {cell.memory}"
    return None


def with_usage(host: NUMATopology, fitted: InstanceNUMATopology, sign: int = 1) -> NUMATopology:
    """Return the host with a fitted guest on it, or without it where sign is -1.

    No usage falls below 0. Topologies are shared, so that a new one is made.
    """
    cells = list(host.cells)
    for guest in fitted.cells:
        cells = [_used(cell, guest, sign) if cell.id == guest.id else cell for cell in cells]
    return NUMATopology(cells)


def _used(cell: NUMACell, guest: InstanceNUMACell, sign: int) -> NUMACell:
    pinned = {*(guest.cpu_pinning or {}).values(), *(guest.cpuset_reserved or ())}
    if guest.cpu_thread_policy == ISOLATE:
        pinned = with_siblings(cell, pinned)
    smallest = _smallest_pages(cell)
    size_kb = guest.pagesize or (smallest.size_kb if smallest else 1)
    used = sign * -(-guest.memory * 1024 // size_kb)
    return replace(
        cell,
        cpu_usage=max(0, cell.cpu_usage + sign * len(guest.cpuset)),
        memory_usage=max(0, cell.memory_usage + sign * guest.memory),
        pinned_cpus=cell.pinned_cpus | pinned if sign > 0 else cell.pinned_cpus - pinned,
        mempages=[
            replace(pages, used=max(0, pages.used + used)) if pages.size_kb == size_kb else pages
            for pages in cell.mempages
        ],
    )


def _shortage_of_shares(cell: NUMACell, guest: InstanceNUMACell, ratios: Ratios) -> str | None:
    for total, used, ratio, wanted, unit in (
        (len(cell.cpuset), cell.cpu_usage, ratios.cpu, len(guest.cpuset), "CPUs"),
        (cell.memory, cell.memory_usage, ratios.ram, guest.memory, "MB"),
    ):
        if fits(total, used, ratio, wanted):
            continue
        if wanted > total:
            return f"needs {wanted} {unit}, the cell has only {total}"
        if math.isnan(ratio):
            return f"needs {wanted} {unit}, and the over-commit ratio of the {total} is not known"
        left = f"{limit(total, ratio) - used:.15g} left of {total} x {ratio:.15g}"
        return f"needs {wanted} {unit}, {left}"
    return None


def _smallest_pages(cell: NUMACell) -> NUMAPagesTopology | None:
    """Return the pages of the smallest size, None when the host reports no pages."""
    pages = (each for each in cell.mempages if each.size_kb > 0)
    return min(pages, key=lambda each: each.size_kb, default=None)


def _allowed_pages(cell: NUMACell, pagesize: int) -> list[NUMAPagesTopology]:
    """Return the pages that the requested size allows, the largest first."""
    pages = sorted(
        (pages for pages in cell.mempages if pages.size_kb > 0),
        key=lambda pages: pages.size_kb,
        reverse=True,
    )
    if pagesize == SMALL:
        return pages[-1:]
    if pagesize == LARGE:
        return pages[:-1]
    return pages if pagesize == ANY else [each for each in pages if each.size_kb == pagesize]
