# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Requests for PCI devices that no host serves: which hosts are nearest."""

import pytest

from inventory.objects.pci_and_network import InstancePCIRequest, InstancePCIRequests
from inventory.pci_pools import PciPools
from scheduler.analysis.diagnosis import filter_rejections, name_rejections
from scheduler.analysis.near_miss import RefusedInstance
from scheduler.base_plugin import ResourceShortfall
from scheduler.filters.pci_passthrough import PciPassthroughFilter
from scheduler.hosts.host_state import HostState
from tests.builders import a_request
from tests.devices import a_pool
from tests.hosts import a_host, a_table

GPU = {"vendor_id": a_pool(1, 0).vendor_id, "product_id": a_pool(1, 0).product_id}
NIC = {"vendor_id": "8086", "product_id": "154d"}


def asking(*wanted):
    requests = [InstancePCIRequest(count, [kind]) for count, kind in wanted]
    return a_request(pci_requests=InstancePCIRequests(requests=requests))


def with_gpus(*counts):
    return a_table(
        *(
            a_host(f"h{n:02}", pci_stats=PciPools([a_pool(count, 0)] if count else []))
            for n, count in enumerate(counts)
        )
    )


def test_the_host_that_lacks_the_fewest_devices_comes_first():
    """18 hosts with fewer and fewer devices stand before it in the table."""
    hosts, request = with_gpus(*range(17, -1, -1), 18), asking((20, GPU))
    found = [*name_rejections(hosts, request)]
    found += filter_rejections(hosts, request, [PciPassthroughFilter()])
    misses = RefusedInstance(hosts, request, found).near_misses(sorted(hosts.rows()), 3)
    assert [each.host for each in misses] == ["h18", "h00", "h01"]
    assert misses[0].text.endswith("18 free")


@pytest.mark.parametrize(
    ("free", "wanted", "missing"),
    [
        (2, [(4, GPU)], 2),
        (0, [(4, GPU)], 4),
        (3, [(2, GPU), (2, GPU)], 1),
        (4, [(2, GPU), (1, NIC)], 1),
        # The first is refused, so all have to go.
        (4, [(1, NIC), (2, GPU)], 3),
        (4, [(2**31, GPU)], 2**31 - 4),
    ],
)
def test_so_many_devices_are_missing(free, wanted, missing):
    hosts = with_gpus(free)
    lack = PciPassthroughFilter().lack(HostState.of(hosts, 0), asking(*wanted))
    assert lack == ResourceShortfall("pci_devices", missing)
