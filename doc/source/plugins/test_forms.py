# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of examples of the plug-in author's guide."""

from forms import InOrder, RoomyHosts, TenthFree

from scheduler.decision.pipeline import Plan, Request
from scheduler.decision.types import ResourceShortfall
from scheduler.hosts.host_state import HostState
from scheduler.hosts.table import HostTable
from scheduler.objects.flavor_and_image import Flavor
from scheduler.objects.request_spec import RequestSpec


def test_keeps_a_host_with_twice_the_memory_and_no_smaller_one():
    host = HostState("hypervisor1", "node1")
    host.total_usable_ram_mb = 4096
    assert RoomyHosts().host_passes(host, RequestSpec(Flavor(1, 2048, 10)))

    too_much = RequestSpec(Flavor(1, 2049, 10))
    assert not RoomyHosts().host_passes(host, too_much)
    assert RoomyHosts().reason(host, too_much) == "needs 4098 MB in total, has 4096"


def test_says_how_much_memory_is_missing_for_a_tenth_to_stay_free():
    host = HostState("hypervisor1", "node1")
    host.total_usable_ram_mb = host.free_ram_mb = 4096
    assert TenthFree().host_passes(host, RequestSpec(Flavor(1, 3686, 10)))

    too_much = RequestSpec(Flavor(1, 3700, 10))
    assert not TenthFree().host_passes(host, too_much)
    assert TenthFree().lack(host, too_much) == ResourceShortfall("memory_mb", 14)


def test_fills_hosts_in_their_order():
    hosts = HostTable()
    for name, total in (("small", 1024), ("first", 4096), ("second", 8192)):
        row = hosts.add(name, name)
        hosts.set(row, "total_usable_ram_mb", total)
        hosts.set(row, "heartbeat_age", 0.0)
    driver = InOrder(Plan(filters=(RoomyHosts(),)))
    decision = driver.decide(hosts, Request(RequestSpec(Flavor(1, 2048, 10)), ["uuid"]))
    assert [each.chosen.host for each in decision.placements] == ["first"]
