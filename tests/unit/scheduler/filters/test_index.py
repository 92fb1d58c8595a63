# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of all filters against the index in the behaviour reference, section 1.1."""

import pytest
from stevedore import ExtensionManager

from scheduler.decision.pipeline import Plan, Request, decide
from scheduler.plugins import FILTERS
from tests.builders import INSTANCE, a_request
from tests.hosts import a_host, a_table
from tests.numa import a_guest, a_guest_cell, a_topology

CLASSES = {each.name: each.plugin for each in ExtensionManager(FILTERS)}
REBUILD = {"_nova_check_type": ["rebuild"]}
# Asked once per request, asked for rebuilds, limit that is written.
INDEX = [
    ("AggregateCoreFilter", False, False, "vcpu"),
    ("AggregateDiskFilter", False, False, "disk_gb"),
    ("AggregateImagePropertiesIsolation", True, True, None),
    ("AggregateInstanceExtraSpecsFilter", True, False, None),
    ("AggregateIoOpsFilter", False, False, None),
    ("AggregateMultiTenancyIsolation", True, False, None),
    ("AggregateNumInstancesFilter", False, False, None),
    ("AggregateRamFilter", False, False, "memory_mb"),
    ("AggregateTypeAffinityFilter", True, False, None),
    ("AllHostsFilter", True, False, None),
    ("AvailabilityZoneFilter", True, False, None),
    ("ComputeCapabilitiesFilter", True, False, None),
    ("ComputeFilter", True, False, None),
    ("CoreFilter", False, False, "vcpu"),
    ("DifferentHostFilter", True, False, None),
    ("DiskFilter", False, False, "disk_gb"),
    ("ExactCoreFilter", False, False, "vcpu"),
    ("ExactDiskFilter", False, False, "disk_gb"),
    ("ExactRamFilter", False, False, "memory_mb"),
    ("ImagePropertiesFilter", True, True, None),
    ("IoOpsFilter", False, False, None),
    ("IsolatedHostsFilter", True, True, None),
    ("JsonFilter", False, False, None),
    ("MetricsFilter", False, False, None),
    # Once per request from 17 to 20.
    ("NUMATopologyFilter", False, False, "numa_topology"),
    ("NumInstancesFilter", False, False, None),
    ("PciPassthroughFilter", False, False, None),
    ("RamFilter", False, False, "memory_mb"),
    ("RetryFilter", False, False, None),
    ("SameHostFilter", True, False, None),
    ("ServerGroupAffinityFilter", False, False, None),
    ("ServerGroupAntiAffinityFilter", False, False, None),
    ("SimpleCIDRAffinityFilter", True, False, None),
    ("TrustedFilter", True, False, None),
    ("TypeAffinityFilter", False, False, None),
]


def test_the_index_is_complete():
    assert sorted(CLASSES) == sorted(name for name, *_ in INDEX)


@pytest.mark.parametrize(("name", "once", "on_rebuild", "limit"), INDEX)
def test_when_a_filter_is_asked_and_what_it_bounds(name, once, on_rebuild, limit):
    rule = CLASSES[name]()
    assert rule.run_filter_for_index(0)
    assert rule.run_filter_for_index(1) == (not once)
    assert on_rebuild == rule.RUN_ON_REBUILD
    # Whatever is asked of it, also by the filters for bare metal: all that there is.
    guest = a_guest(a_guest_cell())
    spec = a_request(vcpus=16, memory_mb=65536, root_gb=1000, numa_topology=guest)
    host = a_host(numa_topology=a_topology(), cpu_allocation_ratio=1.0)
    assert rule.host_passes(host, spec)
    assert list(host.limits) == ([] if limit is None else [limit])


@pytest.mark.parametrize(("name", "once", "on_rebuild", "limit"), INDEX)
def test_in_which_steps_of_a_decision_it_shows(name, once, on_rebuild, limit):
    plan = Plan([CLASSES[name]()])
    spec = a_request(vcpus=0, memory_mb=0, root_gb=0)
    # The exact filters take a host that has nothing left but CPUs.
    host = a_host(free_ram_mb=0, free_disk_mb=0, vcpus_used=16)
    decision = decide(a_table(host), Request(spec, ["u1", "u2"]), plan)
    steps = [[str(step) for step in each.steps] for each in decision.placements]
    assert steps == [[f"{name} 1->1"], [] if once else [f"{name} 1->1"]]
    spec = a_request(scheduler_hints=REBUILD)
    (placement,) = decide(a_table(host), Request(spec, [INSTANCE]), plan).placements
    assert bool(placement.steps) == on_rebuild
