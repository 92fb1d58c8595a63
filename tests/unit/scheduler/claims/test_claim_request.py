# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.claims.claim_request: from a decision to the claims that hold it."""

import json
from collections.abc import Collection
from typing import NamedTuple

import pytest

from inventory.claims.numa_pci_usage import NUMA, PCI, given_back
from inventory.claims.types import GroupRule
from inventory.objects import node_json
from scheduler.claims.claim_request import (
    ClaimContext,
    ClaimSettings,
    build_claim_request,
    claimable,
    request_identity,
    set_answers,
)
from scheduler.decision.pipeline import Plan, Request, decide
from scheduler.drivers.chance import ChanceScheduler
from scheduler.filters.core import CoreFilter
from scheduler.filters.disk import DiskFilter
from scheduler.filters.numa_topology import NUMATopologyFilter
from scheduler.filters.pci_passthrough import PciPassthroughFilter
from scheduler.filters.ram import RamFilter
from scheduler.filters.server_group_affinity import ServerGroupAffinityFilter
from scheduler.filters.server_group_anti_affinity import ServerGroupAntiAffinityFilter
from scheduler.objects.request_spec import SchedulerRetries, TriedHost
from scheduler.objects.selection import Selection
from scheduler.wire.replies import selections_from_json
from tests.builders import GROUP, a_group, a_request, an_image
from tests.devices import a_pool, all_of, devices, wanted
from tests.hosts import a_host, a_table
from tests.numa import a_guest, a_pinned_cell, a_topology

RESOURCES = (CoreFilter(), RamFilter(), DiskFilter())
PLAN = Plan(RESOURCES)


class View(NamedTuple):
    """What is known of hosts besides their table."""

    seen: Collection[tuple[str, ...]]

    def reports(self, *there: str) -> bool:
        return there in self.seen

    def eligibility_revision(self, node_id: int) -> int:
        return 10 * node_id


def hosts(*names, **attributes):
    """Return a table of equal hosts, whose nodes have the ids 1, 2, ... and the generation 7."""
    numbered = enumerate(names, start=1)
    return a_table(
        *(a_host(name, node_id=number, generation=7, **attributes) for number, name in numbered)
    )


def ordered(table, spec, uuids=("u1",), plan=PLAN, alternates=0, **settings):
    """Return the order for what a plan decides."""
    request = Request(spec, list(uuids), alternates)
    decision = decide(table, request, plan)
    assert decision.shortage is None
    return order(table, request, decision, **settings)


def order(table, request, decision, terms=None, seen=()):
    asked = ClaimContext(request_identity(request, "req-1", "digest"), request, decision, table)
    settings = terms or ClaimSettings(lease=30)
    found = build_claim_request(asked, settings, View(seen))
    answer = [
        [Selection(each.host, each.nodename) for each in (placement.chosen, *placement.alternates)]
        for placement in decision.placements
    ]
    set_answers(found, answer, settings.alternates)
    return found


def answered(claim):
    """Return the hosts in the answer of a claim."""
    return [each.service_host for each in selections_from_json(claim.answer)]


@pytest.mark.parametrize(
    ("ignored", "leaves"), [(None, None), ([], ""), (["H1"], "h1"), (["h1", "h2"], "h1")]
)
def test_the_first_host_to_ignore_is_the_one_that_an_instance_leaves(ignored, leaves):
    request = Request(a_request(ignore_hosts=ignored), ["u1"])
    assert request_identity(request, "req-1", "digest").leaves == leaves


def test_a_claim_is_what_was_decided():
    table = hosts("h1", cpu_allocation_ratio=1.5, disk_allocation_ratio=float("inf"))
    spec = a_request(vcpus=4, memory_mb=4096, root_gb=10, swap=512, image=an_image(os_distro="x"))
    found = ordered(table, spec)
    assert (found.request_id, found.digest, found.lease) == ("req-1", "digest", 30)
    assert (found.identity.uuids, found.group, dict(found.documents)) == (["u1"], None, {})
    (claim,) = found.claims
    assert (claim.node_id, claim.host, claim.node, claim.slot) == (1, "h1", "h1", 0)
    assert (claim.vcpus, claim.memory_mb, claim.disk_mb) == (4, 4096, 10 * 1024 + 512)
    # Without an end, disk has no limit that a database could hold.
    assert claim.limits == {"vcpu": 24.0, "memory_mb": 65536.0}
    assert claim.known == {
        "eligibility_revision": 10,
        "vcpus": 16,
        "cpu_allocation_ratio": 1.5,
        "memory_mb": 65536,
        "ram_allocation_ratio": 1.0,
    }
    assert (claim.in_place, claim.numa, claim.pci, answered(claim)) == (False, None, None, ["h1"])
    assert claim.about == {
        "project_id": "project1",
        "root_gb": 10,
        "ephemeral_gb": 0,
        "flavor_id": 1,
        "flavor_name": "m1.small",
        "image_properties": json.dumps({"os_distro": "x"}),
    }


def test_an_instance_that_was_seen_there_stays_in_its_place():
    (claim,) = ordered(hosts("h1"), a_request(), seen=[("u1", "h1", "h1")]).claims
    assert claim.in_place


def test_an_instance_of_a_request_without_an_id_gets_a_name_of_its_own():
    first, second = ordered(hosts("h1"), a_request(), uuids=("u1", None)).claims
    assert first.instance_uuid == "u1"
    assert len(second.instance_uuid) == 36


def test_a_forced_host_has_no_limits_and_a_volume_no_disk():
    spec = a_request(force_hosts=["h1"], is_bfv=True, vcpus=999)
    (claim,) = ordered(hosts("h1"), spec).claims
    assert (claim.limits, claim.disk_mb, claim.about["root_gb"]) == ({}, 0, 0)


def test_the_claim_of_a_rebuild_holds_no_resources():
    spec = a_request(vcpus=4, scheduler_hints={"_nova_check_type": ["rebuild"]})
    (claim,) = ordered(hosts("h1"), spec).claims
    assert (claim.vcpus, claim.memory_mb, claim.disk_mb) == (0, 0, 0)


def test_image_properties_are_claimed_equal_in_whatever_order_they_came():
    images = (
        an_image(os_distro="debian", hw_cpu_cores="2"),
        an_image(hw_cpu_cores="2", os_distro="debian"),
    )
    first, second = (ordered(hosts("h1"), a_request(image=each)).claims[0] for each in images)
    assert first.about["image_properties"] == second.about["image_properties"]
    assert json.loads(first.about["image_properties"]) == {
        "hw_cpu_cores": "2",
        "os_distro": "debian",
    }


def test_a_bare_metal_node_is_claimed_whole():
    table = hosts("h1", hypervisor_type="ironic", vcpus_used=4)
    (claim,) = ordered(table, a_request(vcpus=1)).claims
    assert (claim.vcpus, claim.memory_mb, claim.disk_mb) == (12, 65536, 1000 * 1024)


def test_drivers_that_do_not_filter_claim_as_well():
    table = hosts("h1", "h2")
    request = Request(a_request(vcpus=4), ["u1", "u2"])
    decision = ChanceScheduler(Plan()).decide(table, request)
    found = order(table, request, decision)
    assert [(each.vcpus, each.limits) for each in found.claims] == [(4, {})] * 2


def test_alternates_are_claimed_where_that_is_wanted():
    table, spec = hosts("h1", "h2", "h3"), a_request()
    assert (
        len(ordered(table, spec, alternates=2, terms=ClaimSettings(alternates=False)).claims) == 1
    )
    chosen, *alternates = ordered(table, spec, alternates=2).claims
    assert not chosen.alternate
    assert [(each.host, each.slot, each.alternate) for each in alternates] == [
        ("h2", -2, True),
        ("h3", -3, True),
    ]
    assert [(each.vcpus, answered(each)) for each in alternates] == [(2, ["h2"]), (2, ["h3"])]
    assert alternates[0].limits == chosen.limits
    nodes = [table.get(row, "nodename") for row in range(3)]
    assert len(set(nodes)) == 3
    assert [each.node for each in (chosen, *alternates)] == nodes


def test_no_alternate_is_held_for_who_takes_cells_or_devices():
    numa = {"numa_topology": a_guest(a_pinned_cell()), "vcpus": 2}
    table = hosts("h1", "h2", numa_topology=a_topology())
    request = Request(a_request(**numa), ["u1"], alternates=1)
    decision = decide(table, request, Plan([NUMATopologyFilter()]))
    assert len(decision.placements[0].alternates) == 1
    assert claimable(decision).placements[0].alternates == ()
    plain = decide(hosts("h1", "h2"), Request(a_request(), ["u1"], alternates=1), PLAN)
    assert claimable(plain) == plain


@pytest.mark.parametrize(
    ("policy", "rules", "most"),
    [
        ("anti-affinity", {}, 1),
        ("anti-affinity", {"max_server_per_host": 3}, 3),
        ("affinity", {}, None),
    ],
)
def test_hard_rules_of_groups_are_claimed_as_filters_have_laid_them_down(policy, rules, most):
    filters = (ServerGroupAffinityFilter(), ServerGroupAntiAffinityFilter())
    spec = a_request(instance_group=a_group(policy, members=["u1", "u9"], rules=rules))
    found = ordered(hosts("h1"), spec, plan=Plan(filters))
    assert found.group == GroupRule(GROUP, ["u1", "u9"], most, [])
    # Where no filter was asked nothing is laid down, and others are to know all the same.
    known = GroupRule(GROUP, ["u1", "u9"], None, [], enforced=False)
    assert ordered(hosts("h1"), spec).group == known
    forced = a_request(instance_group=spec.instance_group, force_hosts=["h1"])
    assert ordered(hosts("h1"), forced, plan=Plan(filters)).group == known


@pytest.mark.parametrize("policy", ["soft-affinity", "soft-anti-affinity"])
def test_members_of_soft_groups_are_known_to_others(policy):
    filters = (ServerGroupAffinityFilter(), ServerGroupAntiAffinityFilter())
    spec = a_request(instance_group=a_group(policy, members=["u1"]))
    found = ordered(hosts("h1"), spec, plan=Plan(filters)).group
    assert found == GroupRule(GROUP, ["u1"], None, [], enforced=False)


@pytest.mark.parametrize("group", [a_group("unknown"), a_group(uuid=None)])
def test_no_other_rules_are_claimed(group):
    filters = (ServerGroupAffinityFilter(), ServerGroupAntiAffinityFilter())
    assert ordered(hosts("h1"), a_request(instance_group=group), plan=Plan(filters)).group is None


@pytest.mark.parametrize(
    ("changes", "attempt"),
    [
        ({}, 0),
        ({"retry": SchedulerRetries(1, [])}, 1),
        ({"retry": SchedulerRetries(2, [TriedHost("h1", "h1")])}, 3),
        ({"ignore_hosts": ["h1"]}, 1),
        ({"ignore_hosts": ["h1", "h2"]}, 2),
    ],
)
def test_who_asks_anew_for_other_hosts_is_further_on(changes, attempt):
    assert ordered(hosts("h3"), a_request(**changes)).attempt == attempt


def test_cells_and_devices_are_claimed_and_can_be_given_back():
    topology, pools = a_topology(), devices(a_pool(3))
    table = hosts("h1", numa_topology=topology, pci_stats=pools)
    plan = Plan((NUMATopologyFilter(), PciPassthroughFilter()))
    spec = a_request(
        numa_topology=a_guest(a_pinned_cell()), pci_requests=all_of(wanted(2)), vcpus=2
    )
    found = ordered(table, spec, plan=plan)
    (claim,) = found.claims
    (document,) = found.documents.values()
    assert document.generation == 7
    assert claim.numa
    assert claim.pci
    left = node_json.pci_pools_from_json(document.texts[PCI])
    assert [pool.count for pool in left] == [1]
    cells = node_json.numa_topology_from_json(document.texts[NUMA]).cells
    assert [len(cell.pinned_cpus) for cell in cells] == [2, 0]
    back = given_back(document.texts, [claim])
    assert node_json.numa_topology_from_json(back[NUMA]) == topology
    assert node_json.pci_pools_from_json(back[PCI]) == list(pools)
