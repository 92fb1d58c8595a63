# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Builders of PCI devices and of requests for them: by default of one kind of network card."""

from inventory.objects.numa import NUMACell
from inventory.objects.pci_and_network import InstancePCIRequest, InstancePCIRequests, PciDevicePool
from inventory.pci_pools import PciPools


def a_pool(
    count: int = 2, numa_node: int | None = None, total: int | None = None, **tags: str | None
) -> PciDevicePool:
    """Return a pool of devices 8086:1520; vendor_id and product_id may be among the tags."""
    vendor = tags.pop("vendor_id", "8086") or ""
    product = tags.pop("product_id", "1520") or ""
    return PciDevicePool(product, vendor, count, numa_node, dict(tags), total)


def devices(*pools: PciDevicePool) -> PciPools:
    """Return the devices of a host."""
    return PciPools(pools)


def wanted(
    count: int = 1, *alternatives: dict[str, str | None], policy: str | None = None
) -> InstancePCIRequest:
    """Return a request for devices of vendor 8086, unless alternatives are given."""
    return InstancePCIRequest(
        count, list(alternatives) or [{"vendor_id": "8086"}], numa_policy=policy
    )


def all_of(*requests: InstancePCIRequest) -> InstancePCIRequests:
    """Return the requests of one instance."""
    return InstancePCIRequests(requests=list(requests))


def host_cells(*sockets: int | None) -> list[NUMACell]:
    """Return the cells of a host, 0 and on, that are on these sockets."""
    return [NUMACell(position, 8192, socket=socket) for position, socket in enumerate(sockets)]


_PRODUCT, _PF = {"product_id": "1520"}, {"dev_type": "type-PF"}
# Pools, requests, and why these cannot be served from those: behaviour reference 1.10.
WORKED_CASES = [
    ([a_pool(2)], [wanted(2)], None),
    ([a_pool(2)], [wanted(3)], "needs 3 of vendor_id=8086, 2 free"),
    ([a_pool(2)], [wanted(1), wanted(1, _PRODUCT)], None),
    (
        [a_pool(2)],
        [wanted(2), wanted(1, _PRODUCT)],
        "needs 1 of product_id=1520, 0 left by the other requests of this instance",
    ),
    ([a_pool(1), a_pool(1)], [wanted(2)], None),
    ([a_pool(**_PF)], [wanted(1)], "needs 1 of vendor_id=8086, 0 free besides dev_type=type-PF"),
    ([a_pool(**_PF)], [wanted(1, {"vendor_id": "8086", **_PF})], None),
    (
        [a_pool(dev_type="vdpa")],
        [wanted(1)],
        "needs 1 of vendor_id=8086, 0 free besides dev_type=vdpa",
    ),
    (
        [a_pool(remote_managed="true")],
        [wanted(1)],
        "needs 1 of vendor_id=8086, 0 free besides remote_managed=true",
    ),
    ([], [wanted(1)], "needs 1 of vendor_id=8086, none reported"),
]
