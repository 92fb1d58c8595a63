# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Answers in the form, the keys and the versions that each caller knows."""

import dataclasses
import math

import pytest

from inventory.objects.pci_and_network import NetworkMetadata
from scheduler.objects.selection import NUMATopologyLimits, SchedulerLimits, Selection
from scheduler.wire.arguments import SelectArguments, decode_select_arguments
from scheduler.wire.errors import InvalidInput
from scheduler.wire.replies import decode_destinations, encode_destinations
from tests.builders import INSTANCE, a_request
from tests.unit.scheduler.wire import wire_samples

REPLIES = [
    name
    for name in wire_samples.names("reply_*select_destinations*")
    if wire_samples.sample(name)["message"]["result"] is not None
]
NUMA = NUMATopologyLimits(16.0, 1.5, NetworkMetadata({"physnet1"}, tunneled=True))


def asked_with(version, return_objects=True):
    return SelectArguments(a_request(), [INSTANCE], return_objects, spec_version=version)


def a_selection(**changes):
    ordinary = {
        "service_host": "compute1",
        "nodename": "node1",
        "compute_node_uuid": "a1",
        "cell_uuid": "c1",
        "availability_zone": "az1",
    }
    return Selection(**ordinary | changes)


def without_changes(primitive):
    """Return the primitive without the list of changed fields, which may be left out."""
    if isinstance(primitive, list):
        return [without_changes(each) for each in primitive]
    if not isinstance(primitive, dict):
        return primitive
    return {
        key: without_changes(each)
        for key, each in primitive.items()
        if key != "nova_object.changes"
    }


@pytest.mark.parametrize("name", REPLIES)
def test_captured_answers_are_read_and_written_alike(name):
    captured = wire_samples.sample(name)["message"]["result"]
    asked = decode_select_arguments(wire_samples.arguments(name.replace("reply_", "call_", 1)))
    written = encode_destinations(decode_destinations(captured), asked)
    expected = without_changes(captured)
    for each in expected:
        if isinstance(each, dict) and "numa_topology" in each["limits"]:
            # The form of old callers carries the version that all of them know.
            each["limits"]["numa_topology"]["nova_object.version"] = "1.0"
    assert written == expected


def test_no_caller_has_to_ask_for_a_downgrade():
    """Newton got limits of 1.1 once, and asked its conductor for what it can read."""
    request, reply, question, answer = (
        each["message"]
        for each in wire_samples.sample("sequence_newton_numa_limits_backport")["messages"]
    )
    asked = decode_select_arguments(request["args"])
    ((written,),) = (encode_destinations(decode_destinations(reply["result"]), asked),)
    assert question["args"]["object_versions"] == {"NUMATopologyLimits": "1.0"}
    assert written["limits"]["numa_topology"] == without_changes(answer["result"])


@pytest.mark.parametrize(
    ("version", "selection", "numa_limits"),
    [
        (None, "1.0", "1.0"),
        ((1, 6), "1.0", "1.0"),
        ((1, 8), "1.0", "1.0"),
        ((1, 9), "1.0", "1.1"),
        ((1, 12), "1.0", "1.1"),
        ((1, 13), "1.1", "1.1"),
        ((1, 15), "1.1", "1.1"),
        ((1, 99), "1.1", "1.1"),
    ],
)
def test_no_caller_gets_a_version_that_it_does_not_know(version, selection, numa_limits):
    chosen = a_selection(limits=SchedulerLimits(numa_topology=NUMA))
    ((written,),) = encode_destinations([[chosen]], asked_with(version))
    assert written["nova_object.version"] == selection
    assert ("availability_zone" in written["nova_object.data"]) == (selection == "1.1")
    limits = written["nova_object.data"]["limits"]
    assert limits["nova_object.version"] == "1.0"
    numa = limits["nova_object.data"]["numa_topology"]
    assert numa["nova_object.version"] == numa_limits
    assert ("network_metadata" in numa["nova_object.data"]) == (numa_limits == "1.1")


def test_every_key_is_sent_save_a_zone_that_is_not_known():
    ((written,),) = encode_destinations(
        [[a_selection(availability_zone=None)]], asked_with((1, 15))
    )
    assert written["nova_object.data"] == {
        "compute_node_uuid": "a1",
        "service_host": "compute1",
        "nodename": "node1",
        "cell_uuid": "c1",
        "limits": None,
        "allocation_request": None,
        "allocation_request_version": None,
    }


def test_old_callers_get_the_chosen_host_only():
    destinations = [[a_selection(), a_selection(service_host="compute2")], [a_selection()]]
    asked = asked_with((1, 6), return_objects=False)
    entry = {"host": "compute1", "nodename": "node1", "limits": {}}
    assert encode_destinations(destinations, asked) == [entry, entry]


@pytest.mark.parametrize(
    ("limits", "sent"),
    [
        (SchedulerLimits(), {}),
        (SchedulerLimits(vcpu=4.5, disk_gb=0), {"vcpu": 4, "disk_gb": 0}),
        (SchedulerLimits(memory_mb=math.inf), {"memory_mb": 2**63 - 1}),
    ],
)
def test_old_callers_get_only_the_limits_that_are_set(limits, sent):
    asked = asked_with(None, return_objects=False)
    (entry,) = encode_destinations([[a_selection(limits=limits)]], asked)
    assert entry["limits"] == sent


def test_the_numa_limit_in_both_forms():
    chosen = a_selection(limits=SchedulerLimits(numa_topology=NUMA))
    ratios = {"cpu_allocation_ratio": 16.0, "ram_allocation_ratio": 1.5}
    envelope = {"nova_object.name": "NUMATopologyLimits", "nova_object.namespace": "nova"}
    (entry,) = encode_destinations([[chosen]], asked_with((1, 6), return_objects=False))
    assert entry["limits"] == {
        "numa_topology": envelope | {"nova_object.version": "1.0", "nova_object.data": ratios}
    }
    ((written,),) = encode_destinations([[chosen]], asked_with((1, 15)))
    networks = {
        "nova_object.name": "NetworkMetadata",
        "nova_object.namespace": "nova",
        "nova_object.version": "1.0",
        "nova_object.data": {"physnets": ["physnet1"], "tunneled": True},
    }
    assert written["nova_object.data"]["limits"]["nova_object.data"] == {
        "numa_topology": envelope
        | {
            "nova_object.version": "1.1",
            "nova_object.data": ratios | {"network_metadata": networks},
        },
        "vcpu": None,
        "disk_gb": None,
        "memory_mb": None,
    }


def test_the_numa_limit_of_a_request_without_networks_has_no_networks():
    limits = SchedulerLimits(numa_topology=NUMATopologyLimits(4.0, 1.0))
    ((written,),) = encode_destinations([[a_selection(limits=limits)]], asked_with((1, 15)))
    numa = written["nova_object.data"]["limits"]["nova_object.data"]["numa_topology"]
    assert numa["nova_object.data"] == {"cpu_allocation_ratio": 4.0, "ram_allocation_ratio": 1.0}


@pytest.mark.parametrize("return_objects", [True, False])
def test_the_client_reads_the_numa_limit_of_both_forms(return_objects):
    limits = SchedulerLimits(numa_topology=NUMATopologyLimits(4.0, 1.0))
    asked = asked_with((1, 15), return_objects)
    ((read,),) = decode_destinations(encode_destinations([[a_selection(limits=limits)]], asked))
    assert read.limits == limits


def test_the_client_reads_both_forms():
    chosen = a_selection(limits=SchedulerLimits(memory_mb=12288), availability_zone=None)
    objects = encode_destinations([[chosen, chosen]], asked_with((1, 15)))
    assert decode_destinations(objects) == [[chosen, chosen]]
    dicts = encode_destinations([[chosen]], asked_with(None, return_objects=False))
    plain = dataclasses.replace(chosen, compute_node_uuid="", cell_uuid="")
    assert decode_destinations(dicts) == [[plain]]


@pytest.mark.parametrize("reply", [None, "x", [None], [{"nodename": "n"}], [[{"host": 1}]]])
def test_nonsense_is_no_answer(reply):
    with pytest.raises(InvalidInput):
        decode_destinations(reply)
