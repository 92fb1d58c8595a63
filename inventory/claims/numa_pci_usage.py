# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What claims use of a node's NUMA cells and PCI pools, which are columns with JSON.

Claims are rows of allocations. Using and giving back add up in any order, so that a recount from
zero and single changes give the same.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from inventory.numa.cells import with_usage
from inventory.objects import node_json
from inventory.objects.numa import NUMATopology
from inventory.objects.pci_and_network import PciDevicePool

# Columns of compute_nodes.
NUMA, PCI = "numa_topology", "pci_stats"


def given_back(texts: Mapping[str, str | None], claims: Iterable[Any]) -> dict[str, str | None]:
    """Return the JSON columns of a node without the usage of these claims."""
    texts = dict(texts)
    cells = node_json.numa_topology_from_json(texts.get(NUMA))
    pools = node_json.pci_pools_from_json(texts.get(PCI))
    for claim in claims:
        if claim.numa and cells is not None:
            cells = with_usage(cells, node_json.guest_topology_from_json(claim.numa), -1)
            texts[NUMA] = node_json.numa_topology_to_json(cells)
        if claim.pci:
            pools = pools_with(pools, node_json.pci_pools_from_json(claim.pci), 1)
            texts[PCI] = node_json.pci_pools_to_json(pools)
    return texts


def cells_taken(cells: NUMATopology, claims: Iterable[Any]) -> NUMATopology:
    """Return the cells of a node with these claims on them."""
    for claim in claims:
        if claim.numa:
            cells = with_usage(cells, node_json.guest_topology_from_json(claim.numa))
    return cells


def devices_taken(pools: list[PciDevicePool], claims: Iterable[Any]) -> list[PciDevicePool]:
    """Return the pools of a node without the devices of these claims; none falls below 0."""
    for claim in claims:
        if claim.pci:
            pools = pools_with(pools, node_json.pci_pools_from_json(claim.pci), -1)
    return pools


def pools_with(
    pools: Iterable[PciDevicePool], more: Iterable[PciDevicePool], sign: int
) -> list[PciDevicePool]:
    """Return pools with those of the same kind in more added, or removed where sign is -1.

    A new kind is added at their end; a pool that becomes empty stays.
    """
    left = list(pools)
    for each in more:
        at = next((n for n, pool in enumerate(left) if _same_kind(pool, each)), None)
        if at is not None:
            left[at] = replace(left[at], count=max(0, left[at].count + sign * each.count))
        elif sign > 0:
            left.append(each)
    return left


def devices_between(
    before: Iterable[PciDevicePool], after: Iterable[PciDevicePool]
) -> list[PciDevicePool]:
    """Return what was taken from the pools of a node between two moments."""
    taken = pools_with(before, after, -1)
    return [replace(pool, total=None) for pool in taken if pool.count]


def _same_kind(one: PciDevicePool, other: PciDevicePool) -> bool:
    # The release before writes no total.
    return replace(one, count=0, total=None) == replace(other, count=0, total=None)
