# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Memory pages of a host cell: which size a guest cell gets, and whether there are enough.

Source: behaviour reference 1.11. A guest that names no page size lives in the smallest pages, and
may share them with others, if not with itself, unless some of its CPUs are pinned.
"""

from scheduler.objects.numa import InstanceNUMACell, NUMACell, NUMAPagesTopology

SMALL, LARGE, ANY = -1, -2, -3
_NAMES = {SMALL: "the smallest size", LARGE: "a large size", ANY: "any size"}


def page_size(cell: NUMACell, guest: InstanceNUMACell) -> int | None:
    """Return the size in KB of the pages for a guest that asks for a size, None if none serve."""
    memory_kb = guest.memory * 1024
    for pages in _wanted(cell, guest.pagesize or ANY):
        if pages.free_kb >= memory_kb and memory_kb % pages.size_kb == 0:
            return pages.size_kb
    return None


def shortage(cell: NUMACell, guest: InstanceNUMACell) -> str | None:
    """Return in words why the host has no memory of its own for a guest, None if it has.

    How far floating guests may over-commit memory together is not judged here.
    """
    if guest.pagesize:
        if page_size(cell, guest) is not None:
            return None
        wanted = _NAMES.get(guest.pagesize, f"{guest.pagesize} KB")
        usable = ((pages.free, pages.size_kb) for pages in _wanted(cell, guest.pagesize))
        found = ", ".join(f"{count} of {size_kb} KB" for count, size_kb in usable) or "none"
        return f"needs {guest.memory} MB in whole pages of {wanted}, free are {found}"
    smallest = smallest_pages(cell)
    if smallest is not None:
        return _shortage_of_smallest(smallest, guest)
    if guest.has_pinned_cpus and guest.memory > cell.avail_memory:
        return f"needs {guest.memory} MB, {cell.avail_memory} free of {cell.memory}"
    return None


def smallest_pages(cell: NUMACell) -> NUMAPagesTopology | None:
    """Return the pages of the smallest size, None when the host reports no pages."""
    smallest = None
    for pages in cell.mempages:
        if pages.size_kb > 0 and (smallest is None or pages.size_kb < smallest.size_kb):
            smallest = pages
    return smallest


def pages_needed(guest: InstanceNUMACell, size_kb: int) -> int:
    """Return how many pages of a size the memory of a guest takes."""
    return -(-guest.memory * 1024 // size_kb)


def _wanted(cell: NUMACell, pagesize: int) -> list[NUMAPagesTopology]:
    """Return the pages that a wish allows, the best first."""
    biggest_first = sorted(
        (pages for pages in cell.mempages if pages.size_kb > 0),
        key=lambda pages: pages.size_kb,
        reverse=True,
    )
    if pagesize == SMALL:
        return biggest_first[-1:]
    if pagesize == LARGE:
        return biggest_first[:-1]
    if pagesize == ANY:
        return biggest_first
    return [pages for pages in biggest_first if pages.size_kb == pagesize]


def _shortage_of_smallest(pages: NUMAPagesTopology, guest: InstanceNUMACell) -> str | None:
    count = pages.free if guest.has_pinned_cpus else pages.total
    memory_kb = guest.memory * 1024
    if memory_kb <= count * pages.size_kb and memory_kb % pages.size_kb == 0:
        return None
    return f"needs {guest.memory} MB in whole pages, usable are {count} of {pages.size_kb} KB"
