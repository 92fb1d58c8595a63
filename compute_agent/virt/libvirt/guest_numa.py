# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""On which cells and CPUs of the host a guest is, from what its domain says and what the host has.

Pinned CPUs count on the cells where they are; what floats and the memory on the cell that the
domain names, or else where most of its pinned CPUs are or all CPUs that it is confined to. Huge
pages that only one cell has are there.
"""

from collections.abc import Iterable, Iterator

from compute_agent.virt.libvirt.domain_numa import DomainCell
from compute_agent.virt.libvirt.host_cells import HostCells
from inventory.numa.cells import LARGE
from inventory.objects.numa import InstanceNUMACell, InstanceNUMATopology, NUMACell


def placed(cells: Iterable[DomainCell], host: HostCells | None) -> InstanceNUMATopology | None:
    """Return the cells of a domain as they are on the host, None if on no cell of it."""
    if host is None:
        return None
    found = [part for cell in cells for part in _parts(cell, host)]
    return InstanceNUMATopology(found) if found else None


def _parts(cell: DomainCell, host: HostCells) -> Iterator[InstanceNUMACell]:
    """Yield what a cell of a domain has on each cell of the host."""
    home = _home(cell, host)
    memory_home = _home_of_pages(cell, host, home)
    for each in host.numa.cells:
        has_memory = each.id == memory_home
        pinned = {cpu: on for cpu, on in cell.pins.items() if on in each.pcpuset}
        # A CPU that is only for floating guests can hold no pinned one.
        floating = {cpu for cpu, on in cell.pins.items() if on in each.cpuset - each.pcpuset}
        floating |= cell.cpus if each.id == home else set()
        reserved = cell.reserved & each.pcpuset
        if has_memory or pinned or floating or reserved:
            yield InstanceNUMACell(
                id=each.id,
                memory=cell.memory if has_memory else 0,
                cpuset=floating,
                pcpuset={*pinned},
                cpuset_reserved={*reserved} or None,
                pagesize=_pagesize(cell, each, host.default_pages_kib),
                cpu_pinning=pinned or None,
                cpu_policy=_policy(floating, pinned),
                cpu_thread_policy=cell.thread_policy,
            )


def _home(cell: DomainCell, host: HostCells) -> int | None:
    """Return the host cell of what floats of a domain's cell, None if it is unknown."""
    if cell.host_cell in host.cpus or len(host.cpus) == 1:
        return cell.host_cell if cell.host_cell in host.cpus else min(host.cpus)
    pinned = {*cell.pins.values()}
    most = max(host.cpus, key=lambda each: len(pinned & host.cpus[each]), default=None)
    if most is not None and pinned & host.cpus[most]:
        return most
    confined = (each for near in cell.near for each, cpus in host.cpus.items() if near <= cpus)
    return next(confined, None)


def _home_of_pages(cell: DomainCell, host: HostCells, home: int | None) -> int | None:
    """Return the host cell where a cell of a domain has its memory: home, but for huge pages.

    Those that only one cell has are there, unless the domain names another.
    """
    if not cell.pagesize or cell.host_cell in host.cpus:
        return home
    default = host.default_pages_kib
    sizes = {each.id: _pagesize(cell, each, default) for each in host.numa.cells}
    having = [each.id for each in host.numa.cells if sizes[each.id] in _sizes(each)]
    if cell.pagesize == LARGE:
        # The others would be taken only where no cell has any of the default size.
        having = [each for each in having if sizes[each] == default] or having
    return having[0] if len(having) == 1 else home


def _pagesize(cell: DomainCell, host: NUMACell, default: int | None) -> int | None:
    """Return the KiB of a page; where only the host knows, its default or what it has pages of."""
    if cell.pagesize != LARGE:
        return cell.pagesize
    smallest = min((pages.size_kb for pages in host.mempages), default=0)
    huge = sorted(size for size in _sizes(host) if size > smallest)
    return default if default in huge else next(iter(huge), None)


def _sizes(host: NUMACell) -> set[int]:
    """Return the KiB of the pages that a host cell has any of."""
    return {pages.size_kb for pages in host.mempages if pages.total}


def _policy(floating: object, pinned: object) -> str:
    if pinned:
        return "mixed" if floating else "dedicated"
    return "shared"
