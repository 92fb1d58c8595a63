# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What claims use of a node's NUMA cells and PCI pools, which are columns with JSON.

Claims are rows of allocations. Using and giving back add up in any order, so that a recount from
zero and single changes give the same.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from inventory import stored_documents
from inventory.numa.cells import with_usage
from inventory.objects import node_json
from inventory.objects.numa import InstanceNUMATopology, NUMATopology
from inventory.objects.pci_and_network import PciDevicePool

T = TypeVar("T")
# Columns of compute_nodes.
NUMA, PCI = "numa_topology", "pci_stats"


def given_back(texts: Mapping[str, str | None], claims: Sequence[Any]) -> dict[str, str | None]:
    """Return the JSON columns of a node without the usage of these claims."""
    texts = dict(texts)
    if not claims:
        return texts
    cells = _of_node(node_json.numa_topology_from_json, texts, NUMA, claims)
    pools = _of_node(node_json.pci_pools_from_json, texts, PCI, claims)
    for claim in claims:
        if cells is not None and (taken := topology_of(claim)):
            cells = with_usage(cells, taken, -1)
            texts[NUMA] = node_json.numa_topology_to_json(cells)
        if claim.pci and pools is not None:
            pools = pools_with(pools, devices_of(claim), 1)
            texts[PCI] = node_json.pci_pools_to_json(pools)
    return texts


def cells_taken(cells: NUMATopology, claims: Iterable[Any]) -> NUMATopology:
    """Return the cells of a node with these claims on them."""
    for claim in claims:
        if taken := topology_of(claim):
            cells = with_usage(cells, taken)
    return cells


def devices_taken(pools: list[PciDevicePool], claims: Iterable[Any]) -> list[PciDevicePool]:
    """Return the pools of a node without the devices of these claims; none falls below 0."""
    for claim in claims:
        if claim.pci:
            pools = pools_with(pools, devices_of(claim), -1)
    return pools


def topology_of(claim: Any) -> InstanceNUMATopology | None:
    """Return the cells of a claim, None where it has none or they cannot be read."""
    if not claim.numa:
        return None
    return _read(node_json.guest_topology_from_json, claim, claim.numa, NUMA)


def devices_of(claim: Any) -> list[PciDevicePool]:
    """Return the devices of a claim, none where it has none or they cannot be read."""
    if not claim.pci:
        return []
    return _read(node_json.pci_pools_from_json, claim, claim.pci, PCI) or []


def _of_node(
    work: Callable[[str], T], texts: Mapping[str, str | None], name: str, claims: Sequence[Any]
) -> T | None:
    """Return a column of the node of some claims, None where it cannot be read."""
    return stored_documents.read(
        work,
        texts.get(name) or "",
        f"Column {name} of the compute node with the claim of instance {claims[0].instance_uuid}",
        "the column stays as it is until the agent of the node writes it again",
    )


def _read(work: Callable[[str], T], claim: Any, text: str, what: str) -> T | None:
    return stored_documents.read(
        work,
        text,
        f"The {what} of the claim of instance {claim.instance_uuid}",
        "the other resources of the claim count, but these do not. Migrate the instance once, or"
        " release the claim with 'claim release' if the instance does not exist",
    )


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
