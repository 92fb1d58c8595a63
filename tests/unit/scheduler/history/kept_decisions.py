# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Decisions with everything in them that one may have, the same each time they are built."""

import math
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from inventory.objects.numa import (
    InstanceNUMACell,
    InstanceNUMATopology,
    NUMACell,
    NUMAPagesTopology,
    NUMATopology,
)
from inventory.objects.pci_and_network import (
    InstancePCIRequest,
    InstancePCIRequests,
    NetworkMetadata,
    NetworkRequest,
    PciDevicePool,
    SecurityGroup,
)
from inventory.objects.reserved_place import ReservedPlace
from inventory.objects.standby import OwnStandby, Protection
from inventory.objects.standby_sums import NodeSums
from inventory.pci_pools import PciPools
from scheduler.decision.pipeline import Plan, Request, decide
from scheduler.decision.types import (
    Decision,
    MovedStandby,
    OtherStandby,
    Placement,
    PlacementFailure,
    PlannedStandby,
    Step,
    WeighedHost,
)
from scheduler.filters.ram import RamFilter
from scheduler.history.serialization import DecisionDocument
from scheduler.hosts.flavor_mix import FlavorShare
from scheduler.hosts.host_state import Candidate, Consumption
from scheduler.hosts.limits import GroupLimit
from scheduler.hosts.snapshots import Snapshot, SnapshotLog
from scheduler.hosts.table import HostTable
from scheduler.objects.instance import Instance
from scheduler.objects.request_spec import (
    CellMapping,
    Destination,
    RequestGroup,
    RequestLevelParams,
    RequestSpec,
    SchedulerRetries,
    TriedHost,
)
from scheduler.objects.selection import NUMATopologyLimits, SchedulerLimits
from scheduler.weighers.ram import RAMWeigher
from scheduler.wire.context import RequestContext
from tests.builders import a_flavor, a_group, a_request, an_image
from tests.hosts import a_host, a_table, an_aggregate

SETTINGS = {
    "filter_scheduler": {"enabled_filters": ["RamFilter"], "ram_weight_multiplier": -1.5},
    "theirs": {"pair": ("a", 1), "odd": {1: "one", None: {2.5}}, "most": math.inf},
}


def a_full_request(**changes: Any) -> RequestSpec:
    """Return a request in which every field is set."""
    cell = InstanceNUMACell(0, 1024, {0, 1}, {2}, {3}, 4, {2: 10}, "mixed", "require")
    full = {
        "extra_specs": {"hw:cpu_policy": "mixed", "=set": "=tuple", "größe": "\U0001f600"},
        "num_instances": 3,
        "availability_zone": "z1",
        "image": an_image(
            size=2**40, tags=["a"], hw_architecture="x86_64", hw_numa_nodes=2, img_list=["a", "b"]
        ),
        "ignore_hosts": ["h8"],
        "force_hosts": [],
        "requested_destination": Destination(
            cell=CellMapping("c1", "cell one"), aggregates=["a,b"], forbidden_aggregates={"c"}
        ),
        "instance_group": a_group(members=["m1"], hosts=["h3"], rules={"max_server_per_host": 2}),
        "scheduler_hints": {"group": ["g"], "different_host": ["i1", "i2"]},
        "retry": SchedulerRetries(2, [TriedHost("h9", "n9")]),
        "limits": SchedulerLimits(1.5, math.inf, None),
        "numa_topology": InstanceNUMATopology([cell], 7, "u1", "share"),
        "pci_requests": InstancePCIRequests(
            "u1", [InstancePCIRequest(1, [{"vendor_id": "8086", "physnet": None}], "nic")]
        ),
        "network_metadata": NetworkMetadata({"net1", "net2"}, tunneled=True),
        "requested_networks": [NetworkRequest("n1", tag="t"), NetworkRequest(port_id="p1")],
        "security_groups": [SecurityGroup("default")],
        "requested_resources": [
            RequestGroup(resources={"VGPU": 1}, required_traits={"A", "B"}, aggregates=[["a"]])
        ],
        "request_level_params": RequestLevelParams({"T"}, {"F"}, [["a", "b"]]),
        "id": 17,
        "offered_nodes": {"node1", "node2"},
        "refused_nodes": {"node3"},
        "needs_placement": True,
        "kept_apart": {"h5"},
    }
    return a_request(**full | changes)


def a_table_of_hosts() -> HostTable:
    """Return a table with values of all kinds in its columns."""
    shared = an_aggregate("h1", "h2", availability_zone="z1")
    cell = NUMACell(
        *(0, 4096, {0, 1}, {2, 3}, 1, 512, {2}, [{0, 1}, {2, 3}]),
        [NUMAPagesTopology(4, 1000, 10, 1)],
        NetworkMetadata({"net1"}),
        1,
    )
    pools = PciPools([PciDevicePool("p", "v", 2, 0, {"physnet": None}, 4)])
    hosts = [
        a_host("h1", aggregates=[shared], stats={"a": 1, "b": [1.5, None, {"c": True}]}),
        a_host("h2", "n2", aggregates=[shared, an_aggregate("h2")], free_ram_mb=50_000),
        a_host("h3", numa_topology=NUMATopology([cell]), pci_stats=pools, metrics=[{"value": 0.1}]),
        a_host("h4", "größe", cpu_info={"features": ["a", "b"]}, trust_level="trusted"),
    ]
    for number, host in enumerate(hosts[:3]):
        instance = Instance(
            *(f"u{number}", host.host, host.nodename, "p1", "user", 1, 2, 3, 4, "active"),
            flavor=a_flavor(extra_specs={"a": "b"}),
            image_properties={"os_type": "linux"},
        )
        host.instances = {f"u{number}": instance, "other": Instance("known otherwise")}
    table = a_table(*hosts)
    table.set_time(5.0)
    table.set_flavor_mix((FlavorShare(2, 2048, 20_480, 0.75), FlavorShare(1, 512, 0, 0.25)))
    return table


def snapshots() -> list[Snapshot]:
    """Return the first snapshots of a log: the whole table, changes, and a new row."""
    table, log = a_table_of_hosts(), SnapshotLog()
    found = [log.take(table)]
    table.add_to(1, {"free_ram_mb": -2048, "vcpus_used": 2})
    table.set(0, "stats", {"a": 2})
    table.set(0, "updated", 1.5)
    table.set(1, "last_seen", None)
    table.instances.add(1, "v1", Instance("v1", flavor=a_flavor(swap=1)))
    found.append(log.take(table))
    row = table.add("h5", "h5")
    table.set(row, "free_ram_mb", 1024)
    table.set(2, "service_disabled", True)
    table.remove(0)
    table.fill("free_disk_mb", np.arange(5.0))
    found.append(log.take(table))
    return [*found, log.take(table)]


def documents() -> dict[str, DecisionDocument]:
    """Return decisions by a name for each."""
    return {
        "placed": _placed(),
        "refused": _refused(),
        "protected": _protected(),
        "odd": _odd(),
        "plain": DecisionDocument(Request(a_request(), [None]), Decision()),
    }


def _placed() -> DecisionDocument:
    plan = Plan([RamFilter()], [RAMWeigher()])
    request = Request(a_request(memory_mb=1024), ["u7", "u8", None], alternates=1, seed=2**63)
    return DecisionDocument(
        request,
        decide(a_table_of_hosts().working_copy(), request, plan),
        instance_uuids=("u7", "u8", None, "u6"),
        caller=RequestContext("req-1", roles=("admin", "member"), is_admin=True, client_timeout=60),
        settings=SETTINGS,
        conflicts=2,
        view_age=math.inf,
        seconds={"queue": 0.125, "decide": 1e-300},
        total=2,
        release="0.1.0",
    )


def _refused() -> DecisionDocument:
    steps = (Step("RetryFilter", 4, 4), Step("RamFilter", 4, 0))
    shortage = PlacementFailure(1, "u2", steps, "There are not enough hosts available.")
    request = Request(a_full_request(), ["u1", "u2"], seed=3, by_admin=True, choices=2)
    decision = Decision(shortage=shortage, warnings=("größer", "than"), seed=3, hosts=4)
    return DecisionDocument(request, decision, outcome="refused", settings=SETTINGS)


def _protected() -> DecisionDocument:
    size = (2, 2048, 20_480)
    sums = NodeSums({1: {"rack1": size}, 2: {"rack1": (1, 2, 3), "rack2": (0, 0, 1)}})
    own = (OwnStandby("u1", 1, 2, size, place="place1", is_seen=True),)
    others = (
        OtherStandby(
            *(7, "u9", "u9", False, 1, 2, "h2", ("rack1",), size, "required", "p1"),
            a_full_request(instance_uuid="u9"),
            True,
        ),
    )
    places = [ReservedPlace("place1", 1, *size, True, 2), ReservedPlace("place2", 2, *size)]
    request = Request(
        a_request(),
        ("u1",),
        holds_alternates=True,
        places=places,
        protection=Protection("required", sums, own),
        others=others,
    )
    candidate = Candidate(
        *(0, "h1", "n1", "uuid1", "cell1"),
        {
            "vcpu": 16.0,
            "memory_mb": math.inf,
            "server_group": GroupLimit(2),
            "apart": GroupLimit(),
            "numa_topology": NUMATopologyLimits(1.5, 1.0, NetworkMetadata({"net1"})),
        },
        -0.0,
    )
    standby = PlannedStandby(("rack1", "rack2"), size, replace(candidate, row=1), None, size, 3)
    cells = a_full_request().numa_topology
    placement = Placement(
        "u1",
        candidate,
        (Step("RamFilter", 4, 2),),
        (
            WeighedHost("h1", "n1", math.nan, {"RAMWeigher": -0.0, "CPUWeigher": math.nan}),
            WeighedHost("h2", "n2", -math.inf, {"RAMWeigher": -math.inf, "CPUWeigher": 5e-324}),
        ),
        (candidate, replace(candidate, row=1, limits={})),
        Consumption(2, 2048, 20_480, cells, (PciDevicePool("p", "v", 1),)),
        "place1",
        standby,
    )
    moved = (MovedStandby(others[0], replace(standby, host=None, reason="no room")),)
    return DecisionDocument(request, Decision((placement,), moved=moved, hosts=2))


def _odd() -> DecisionDocument:
    """Return a decision about a request in which plug-ins have left values of their own."""
    spec = a_request(
        image=an_image(pair=("a", 1), amounts={1.5}, time=datetime(2026, 2, 3, 4, 5, 6, 7, UTC)),
        scheduler_hints={"theirs": {"=set": object()}, "numbers": {1: np.float64(2.5)}},
        availability_zone="\ud800",
        project_id=7,
        ignore_hosts=("h1", frozenset({"h2"})),
        id=10**30,
    )
    placement = Placement(
        "u1",
        Candidate(0, "h1", "h1", None, None, {"theirs": {"a": (1, object())}}, 1.0),
        (),
        (WeighedHost("h1", "h1", np.float64(0.5), {"theirs": np.float32(0.25)}),),
    )
    return DecisionDocument(
        Request(spec, ["u1"], seed=2**64), Decision((placement,)), settings=SETTINGS
    )
