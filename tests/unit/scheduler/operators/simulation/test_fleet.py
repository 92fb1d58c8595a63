# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.operators.simulation.fleet."""

from scheduler.decision.pipeline import Plan, Request, decide
from scheduler.filters.compute import ComputeFilter
from scheduler.filters.core import CoreFilter
from scheduler.filters.ram import RamFilter
from scheduler.objects.instance import Instance
from scheduler.operators.simulation.fleet import HostKind, make_hosts, remove_instances
from tests.builders import a_request
from tests.hosts import a_host, a_table


def test_made_up_hosts_take_what_they_have_room_for():
    hosts = make_hosts([HostKind(2, 8, 16384, 100), HostKind(1, 4, 4096, 0, 2.0)])
    names = [hosts.get(row, "host") for row in hosts.rows()]
    assert names == ["host-00001", "host-00002", "host-00003"]
    plan = Plan([ComputeFilter(), RamFilter(), CoreFilter()])
    spec = a_request(vcpus=4, memory_mb=2048, root_gb=0)
    uuids = [f"u{number}" for number in range(7)]
    decision = decide(hosts.working_copy(), Request(spec, uuids[:6]), plan)
    assert len(decision.placements) == 6
    assert decide(hosts.working_copy(), Request(spec, uuids), plan).shortage is not None


def test_a_cloud_without_its_instances_has_what_they_took():
    instance = Instance("u1", vcpus=2, memory_mb=4096, root_gb=10, ephemeral_gb=5)
    host = a_host(
        vcpus_used=3,
        free_ram_mb=65536 - 4096 - 512,
        free_disk_mb=1000 * 1024 - 15 * 1024,
        num_instances=1,
        num_io_ops=1,
        instances={"u1": instance},
    )
    table = a_table(host, a_host("h2"))
    remove_instances(table)
    figures = ("vcpus_used", "free_ram_mb", "free_disk_mb", "num_instances", "num_io_ops")
    # What is kept back for the host itself stays.
    found = [table.get(0, name) for name in figures]
    assert found == [1, 65536 - 512, 1000 * 1024, 0, 0]
    assert table.instances.on(0) == {}
