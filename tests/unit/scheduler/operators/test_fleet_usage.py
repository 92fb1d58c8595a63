# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.operators.fleet_usage."""

import pytest
from hypothesis import given

from scheduler.hosts.flavor_mix import make_mix
from scheduler.hosts.table import HostTable
from scheduler.operators.fleet_usage import fleet_usage
from tests.contract.drawn import hosts as drawn_hosts
from tests.hosts import a_host, a_table

# Hosts of 16 vCPUs and 64 GB.
EMPTY = {"total_usable_disk_gb": 0, "free_disk_mb": 0}


def used(name, vcpus, ram_gb, instances=1):
    free = 65536 - 1024 * ram_gb
    return a_host(name, vcpus_used=vcpus, free_ram_mb=free, num_instances=instances, **EMPTY)


def test_shares_in_use_empty_hosts_and_instances():
    found = fleet_usage(a_table(used("h1", 8, 16, 3), used("h2", 0, 0, 0)), ())
    assert (found.hosts, found.empty_hosts, found.instances) == (2, 1, 3)
    assert found.used == {"vcpus": 0.25, "memory": 0.125, "disk": 0.0}
    assert {*found.stranded.values()} == {0.0}


def test_what_no_flavor_can_use_is_stranded_by_how_often_it_is_asked_for():
    # One host has no vCPUs left, the other none that the larger flavor could use.
    table = a_table(used("h1", 16, 32), used("h2", 14, 32))
    mix = make_mix({(2, 2048, 0): 3, (4, 2048, 0): 1})
    found = fleet_usage(table, mix)
    assert found.stranded["memory"] == pytest.approx((32 + 0.25 * 32) / 128)
    assert found.stranded["vcpus"] == pytest.approx(0.25 * 2 / 32)


def test_over_commit_does_not_make_room_for_what_a_host_does_not_have():
    host = used("h1", 0, 0)
    host.cpu_allocation_ratio = 4.0
    found = fleet_usage(host.table, make_mix({(17, 1024, 0): 1}))
    assert found.stranded["memory"] == 1.0


def test_a_drain_moves_the_instances_of_the_emptiest_tenth():
    counts = [9, 3, 5, 4, 8, 7, 6, 5, 9, 9, 2, 0]
    table = a_table(*(used(f"h{n}", 0, 0, count) for n, count in enumerate(counts)))
    # Two of eleven hosts with instances.
    assert fleet_usage(table, ()).drain_moves == 2 + 3


def test_without_hosts_nothing_is_in_use():
    found = fleet_usage(HostTable(), make_mix({(1, 1, 0): 1}))
    assert (found.hosts, found.empty_hosts, found.drain_moves) == (0, 0, 0)
    assert found.used == {"vcpus": 0.0, "memory": 0.0, "disk": 0.0}


@given(drawn_hosts())
def test_what_is_stranded_was_free(hosts):
    table = a_table(*hosts)
    found = fleet_usage(table, table.flavor_mix)
    for share in found.stranded.values():
        assert share >= 0
    assert found.empty_hosts + sum(host.num_instances > 0 for host in hosts) == len(hosts)
