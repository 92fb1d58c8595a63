# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What claims take of the documents of a node: its NUMA cells and its pools of devices.

Taking and giving back add up in any order, so that who counts from zero and who changes what is
there come to the same.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from inventory.numa.usage import with_usage
from scheduler.objects import documents
from scheduler.objects.numa import NUMATopology
from scheduler.objects.pci import PciDevicePool

# Columns of compute_nodes.
NUMA, PCI = "numa_topology", "pci_stats"


class Taking(Protocol):
    """A claim, as far as this is concerned: the guest's cells and the devices taken, as JSON."""

    @property
    def numa(self) -> str | None: ...

    @property
    def pci(self) -> str | None: ...


def given_back(texts: Mapping[str, str | None], claims: Iterable[Taking]) -> dict[str, str | None]:
    """Return the documents of a node, by column, without what these claims have taken."""
    texts = dict(texts)
    cells = documents.numa_topology_from_json(texts.get(NUMA))
    pools = documents.pci_pools_from_json(texts.get(PCI))
    for claim in claims:
        if claim.numa and cells is not None:
            cells = _with_cells(cells, claim.numa, -1)
            texts[NUMA] = documents.numa_topology_to_json(cells)
        if claim.pci:
            pools = counted(pools, documents.pci_pools_from_json(claim.pci), 1)
            texts[PCI] = documents.pci_pools_to_json(pools)
    return texts


def cells_taken(cells: NUMATopology, claims: Iterable[Taking]) -> NUMATopology:
    """Return the cells of a node with these claims on them."""
    for claim in claims:
        if claim.numa:
            cells = _with_cells(cells, claim.numa, 1)
    return cells


def devices_taken(pools: list[PciDevicePool], claims: Iterable[Taking]) -> list[PciDevicePool]:
    """Return the pools of a node without what these claims have taken; none falls below 0."""
    for claim in claims:
        if claim.pci:
            pools = counted(pools, documents.pci_pools_from_json(claim.pci), -1)
    return pools


def counted(
    pools: Iterable[PciDevicePool], more: Iterable[PciDevicePool], sign: int
) -> list[PciDevicePool]:
    """Return pools with those of the same kind among more added, or taken where sign is -1.

    A kind that is not among the pools is added at their end; one of which nothing is left is gone.
    """
    left = list(pools)
    for each in more:
        at = next((n for n, pool in enumerate(left) if _same_kind(pool, each)), None)
        if at is not None:
            left[at] = replace(left[at], count=max(0, left[at].count + sign * each.count))
        elif sign > 0:
            left.append(each)
    return [pool for pool in left if pool.count]


def difference(
    before: Iterable[PciDevicePool], after: Iterable[PciDevicePool]
) -> list[PciDevicePool]:
    """Return what is missing of the pools after something was taken of them."""
    return counted(before, after, -1)


def _with_cells(cells: NUMATopology, guest: str, sign: int) -> NUMATopology:
    return with_usage(cells, documents.guest_topology_from_json(guest), sign)


def _same_kind(one: PciDevicePool, other: PciDevicePool) -> bool:
    return replace(one, count=0) == replace(other, count=0)


def documents_of(row: Any) -> dict[str, str | None]:
    """Return the documents of a row of compute_nodes by column."""
    return {NUMA: row.numa_topology, PCI: row.pci_stats}
