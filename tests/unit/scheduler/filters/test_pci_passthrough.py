# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Hosts with the PCI devices that a request asks for."""

import pytest

from inventory.objects.pci_and_network import InstancePCIRequest
from inventory.pci_pools import PciPools
from scheduler.filters.pci_passthrough import PciPassthroughFilter
from tests.builders import a_request
from tests.devices import WORKED_CASES, a_pool, all_of, devices, wanted
from tests.hosts import a_host, hosts_with

RULE = PciPassthroughFilter()


@pytest.mark.parametrize(
    ("pools", "requests", "reason"),
    [
        *WORKED_CASES,
        # Cells of the host are another filter's business.
        ([a_pool(1, 0), a_pool(1, 1)], [wanted(2, policy="required")], None),
    ],
)
def test_a_host_needs_the_devices(pools, requests, reason):
    host = a_host(pci_stats=devices(*pools))
    spec = a_request(pci_requests=all_of(*requests))
    assert RULE.applies(spec)
    assert RULE.host_passes(host, spec) == (reason is None)
    if reason:
        assert RULE.reason(host, spec) == reason


def test_unlike_nova_no_candidates_of_placement_are_needed():
    # Nova looks at each of them and refuses every host where there are none; here there is no
    # Placement, and the request has no place for any.
    spec = a_request(pci_requests=all_of(wanted(1)))
    assert RULE.host_passes(a_host(pci_stats=devices(a_pool(1))), spec)


def test_a_host_that_has_not_reported_has_none_to_give():
    # In Newton this is an error of the whole request.
    host, spec = a_host(pci_stats=None), a_request(pci_requests=all_of(wanted(1)))
    assert not RULE.host_passes(host, spec)
    assert RULE.reason(host, spec) == "needs 1 of vendor_id=8086, none reported yet"


@pytest.mark.parametrize("requests", [None, all_of()])
def test_who_asks_for_no_devices_may_run_anywhere(requests):
    spec = a_request(pci_requests=requests)
    assert not RULE.applies(spec)
    assert RULE.host_passes(a_host(pci_stats=None), spec)


class Counting(PciPools):
    """Pools that remember how often they were asked."""

    __slots__ = ("asked",)

    def __init__(self, pools):
        super().__init__(pools)
        self.asked = 0

    def support_requests(self, requests, numa_cells=None):
        self.asked += 1
        return super().support_requests(requests, numa_cells)


def test_pools_are_asked_once_for_each_kind_of_request():
    same = Counting([a_pool(2)])
    table = hosts_with("pci_stats", {"h1": same, "h2": same, "h3": None, "h4": devices(a_pool(3))})
    few = a_request(pci_requests=all_of(wanted(2)))
    many = a_request(pci_requests=all_of(wanted(3)))
    for _ in range(3):
        assert RULE.mask(table, few).tolist() == [True, True, False, True]
        assert RULE.mask(table, many).tolist() == [False, False, False, True]
    assert same.asked == 2


@pytest.mark.parametrize(
    "others",
    [
        [wanted(2), wanted(1)],
        [wanted(1, {"vendor_id": "8087"})],
        [InstancePCIRequest(1)],
        [wanted(1, {"vendor_id": ["8086"]})],
        [wanted(1, {"vendor_id": None})],
    ],
)
def test_what_was_found_out_for_one_request_is_not_used_for_another(others):
    table = hosts_with("pci_stats", {"h1": devices(a_pool(2))})
    assert RULE.mask(table, a_request(pci_requests=all_of(wanted(1)))).tolist() == [True]
    assert RULE.mask(table, a_request(pci_requests=all_of(*others))).tolist() == [False]


def test_devices_that_were_taken_are_gone_for_the_next_instance():
    table = hosts_with("pci_stats", {"h1": devices(a_pool(1)), "h2": devices(a_pool(2))})
    requests = [wanted(1)]
    spec = a_request(pci_requests=all_of(*requests))
    here = table.working_copy()
    for row in range(2):
        here.set(row, "pci_stats", here.get(row, "pci_stats").consume(requests))
    assert RULE.mask(here, spec).tolist() == [False, True]
    assert RULE.mask(table, spec).tolist() == [True, True]
