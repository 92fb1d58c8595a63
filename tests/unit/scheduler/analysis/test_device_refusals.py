# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Requests for PCI devices that no host serves: which hosts are nearest."""

import pytest

from compute_agent.audit.pci_devices import free_pools
from compute_agent.device_spec import parse
from compute_agent.virt.driver import PciDevice
from inventory.objects.node_json import pci_pools_from_json, pci_pools_to_json
from inventory.objects.pci_and_network import InstancePCIRequest, InstancePCIRequests
from inventory.pci_pools import PciPools
from scheduler.analysis.diagnosis import filter_rejections, name_rejections
from scheduler.analysis.explain import Extent, explain
from scheduler.analysis.near_miss import RefusedInstance
from scheduler.base_plugin import ResourceShortfall
from scheduler.decision.pipeline import Plan, Request
from scheduler.drivers.filter_scheduler import FilterScheduler
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
            a_host(f"h{n:02}", pci_stats=PciPools([a_pool(count, 0)]))
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
        (4, [(2**31, GPU)], 2**31 - 4),
        # No number of free devices would help where there is none of a kind.
        (4, [(2, GPU), (1, NIC)], None),
        (4, [(1, NIC), (2, GPU)], None),
    ],
)
def test_so_many_devices_are_missing(free, wanted, missing):
    hosts = with_gpus(free)
    lack = PciPassthroughFilter().lack(HostState.of(hosts, 0), asking(*wanted))
    assert lack == (None if missing is None else ResourceShortfall("pci_devices", missing))


def reported(number, taken):
    """Return what schedulers know of a host with so many devices, some of them taken."""
    addresses = [f"0000:{bus:02x}:00.0" for bus in range(number)]
    found = [PciDevice(each, **GPU, numa_node=0) for each in addresses]
    pools = free_pools(parse(["{}"]), found, addresses[:taken])
    return PciPools(pci_pools_from_json(pci_pools_to_json(pools)))


def test_hosts_whose_devices_are_all_in_use_are_told_from_those_without():
    hosts = a_table(
        a_host("none", pci_stats=reported(0, 0)),
        a_host("used", pci_stats=reported(4, 4)),
        a_host("claimed", pci_stats=reported(4, 1)),
        a_host("one-free", pci_stats=reported(4, 3)),
        a_host("new", pci_stats=None),
    )
    HostState.of(hosts, 2).consume_from_request(asking((3, GPU)))
    request = Request(asking((2, GPU)), ["an-instance"])
    driver = FilterScheduler(Plan([PciPassthroughFilter()]))
    found = explain(hosts, request, driver, 0, Extent(near=4))
    wanted = "needs 2 of vendor_id=8086 product_id=1520"
    assert {each.first: each.refusals[0].reason for each in found.refused} == {
        ("none",): f"{wanted}, none reported",
        ("used", "claimed"): f"{wanted}, 0 free of 4",
        ("one-free",): f"{wanted}, 1 free of 4",
        ("new",): f"{wanted}, none reported yet",
    }
    nearest = [(each.host, each.hosts) for each in found.near_misses]
    assert nearest == [("one-free", 1), ("used", 2), ("none", 1), ("new", 1)]
