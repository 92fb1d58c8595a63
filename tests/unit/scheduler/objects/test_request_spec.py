# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What filters and the pipeline ask of a request."""

import copy
from dataclasses import replace

import pytest

from scheduler.objects.selection import NUMATopologyLimits, SchedulerLimits
from tests.builders import INSTANCE, a_flavor, a_group, a_request


def test_figures_come_from_the_flavor():
    spec = a_request(vcpus=4, memory_mb=512, root_gb=3, ephemeral_gb=2, swap=64)
    figures = (spec.vcpus, spec.memory_mb, spec.root_gb, spec.ephemeral_gb, spec.swap)
    assert figures == (4, 512, 3, 2, 64)


@pytest.mark.parametrize(("is_bfv", "disk_mb"), [(False, 5 * 1024 + 64), (True, 2 * 1024 + 64)])
def test_the_root_disk_of_a_volume_is_not_on_the_host(is_bfv, disk_mb):
    assert a_request(root_gb=3, ephemeral_gb=2, swap=64, is_bfv=is_bfv).disk_mb == disk_mb


@pytest.mark.parametrize(
    ("hints", "value"),
    [
        ({}, "none given"),
        ({"group": ["g"]}, "g"),
        ({"group": ["g", "h"]}, ["g", "h"]),
        ({"group": []}, []),
        # A list inside a single text is not taken apart.
        ({"group": ['["g"]']}, '["g"]'),
    ],
)
def test_a_hint_of_one_item_is_that_item(hints, value):
    assert a_request(scheduler_hints=hints).get_scheduler_hint("group", "none given") == value


def test_a_missing_hint_is_none_by_default():
    assert a_request().get_scheduler_hint("group") is None


@pytest.mark.parametrize(
    ("hints", "rebuild"),
    [
        ({}, False),
        ({"_nova_check_type": ["rebuild"]}, True),
        ({"_nova_check_type": ["rebuild", "rebuild"]}, False),
        ({"_nova_check_type": ["resize"]}, False),
    ],
)
def test_a_rebuild_is_recognised_by_its_hint(hints, rebuild):
    assert a_request(scheduler_hints=hints).is_rebuild is rebuild


@pytest.mark.parametrize(
    ("forced", "is_forced"),
    [
        ({}, False),
        ({"force_hosts": [], "force_nodes": []}, False),
        ({"force_hosts": ["h1"]}, True),
        ({"force_nodes": ["n1"]}, True),
    ],
)
def test_forced_hosts_or_nodes_make_a_forced_target(forced, is_forced):
    assert a_request(**forced).has_forced_target is is_forced


def test_the_request_of_one_instance_has_a_group_of_its_own():
    batch = a_request(instance_group=a_group(hosts=["h1"]), num_instances=2)
    second = batch.for_instance("second", more_group_hosts=["h2"])
    second.instance_group.hosts.append("h3")
    second.instance_group.members.append("second")

    assert (second.instance_uuid, second.instance_group.hosts) == ("second", ["h1", "h2", "h3"])
    assert (batch.instance_uuid, batch.instance_group.hosts) == (INSTANCE, ["h1"])
    assert batch.instance_group.members == []


def test_the_request_of_one_instance_is_otherwise_the_same():
    batch = a_request(instance_group=a_group(rules={"max_server_per_host": 2}), is_bfv=True, id=7)
    assert batch.for_instance(INSTANCE) == batch
    assert a_request().for_instance(None) == a_request(instance_uuid=None)


def test_presence_is_what_nova_plug_ins_ask_for():
    flavor = a_flavor(description=None)
    assert "extra_specs" in flavor
    assert flavor.obj_attr_is_set("vcpus")
    assert "description" not in flavor
    assert not flavor.obj_attr_is_set("no_such_field")


def test_a_group_is_readable_by_policy_and_by_policies():
    assert a_group("affinity").policies == ["affinity"]
    assert a_group(None).policies == []


def test_requests_can_be_copied():
    spec = a_request(limits=SchedulerLimits(4.5, numa_topology=NUMATopologyLimits(16.0, 1.5)))
    assert copy.deepcopy(spec) == spec


def test_the_request_of_a_larger_instance_differs_in_its_flavor_only():
    spec = a_request(vcpus=2, memory_mb=2048, root_gb=20)
    assert spec.at_least((2, 1024, 20 * 1024)) is spec
    found = spec.at_least((4, 1024, 20 * 1024 + 5))
    assert (found.vcpus, found.memory_mb, found.disk_mb) == (4, 2048, 20 * 1024 + 5)
    assert replace(found, flavor=spec.flavor) == spec
    assert spec.vcpus == 2


def test_a_larger_request_has_no_amounts_that_would_hide_its_size():
    given = {"resources:VCPU": "1", "resources:DISK_GB": "3", "hw:cpu_policy": "shared"}
    spec = a_request(vcpus=8, memory_mb=2048, root_gb=20, extra_specs=given)
    assert (spec.vcpus, spec.memory_mb, spec.disk_mb) == (1, 2048, 3072)
    assert spec.at_least((1, 2048, 3072)) is spec
    found = spec.at_least((2, 2048, 4000))
    assert (found.vcpus, found.memory_mb, found.disk_mb) == (2, 2048, 4000)
    assert found.flavor.extra_specs == {"hw:cpu_policy": "shared"}
