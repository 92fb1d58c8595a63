# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The page about the wire says of every field that it is read if it is, and only then."""

from typing import Any

import pytest

from inventory.objects.field_types import Malformed
from inventory.objects.node_json import GUEST_CELL, GUEST_TOPOLOGY, NETWORK_METADATA
from inventory.objects.object_schema import ObjectSchema
from scheduler.wire import request_schema, tracking
from scheduler.wire.arguments import decode_select_arguments
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import InvalidInput
from scheduler.wire.image_properties import KINDS
from scheduler.wire.replies import SELECTION
from tests import wire_page
from tests.unit.scheduler.wire import wire_samples

SECTIONS = wire_page.read()
# A class, and what reads it.
SHAPES: dict[str, ObjectSchema[Any]] = {
    "RequestSpec": request_schema.REQUEST_SPEC,
    "Destination": request_schema.DESTINATION,
    "CellMapping": request_schema.CELL,
    "SchedulerRetries": request_schema.RETRIES,
    "ComputeNode": request_schema.TRIED_HOST,
    "SchedulerLimits": request_schema.LIMITS,
    "InstanceGroup": request_schema.GROUP,
    "Flavor": request_schema.FLAVOR,
    "ImageMeta": request_schema.IMAGE,
    "InstanceNUMATopology": GUEST_TOPOLOGY,
    "InstanceNUMACell": GUEST_CELL,
    "InstancePCIRequests": request_schema.PCI_REQUESTS,
    "InstancePCIRequest": request_schema.PCI_REQUEST,
    "NetworkMetadata": NETWORK_METADATA,
    "NetworkRequest": request_schema.NETWORK_REQUEST,
    "SecurityGroup": request_schema.SECURITY_GROUP,
    "RequestGroup": request_schema.REQUEST_GROUP,
    "RequestLevelParams": request_schema.LEVEL_PARAMS,
    "Aggregate": tracking.AGGREGATE,
}
# A list has one field; the limits of cells are read where they stand.
OTHERS = {
    "AggregateList",
    "ComputeNodeList",
    "ImageMetaProps",
    "NUMATopologyLimits",
    "NetworkRequestList",
    "SecurityGroupList",
    "Selection",
    "VirtCPUTopology",
}
FLAVOR = {"vcpus": 1, "memory_mb": 2, "root_gb": 3}


def is_read(shape: ObjectSchema[Any], name: str) -> bool:
    """Tell whether a shape looks at a field: what no field can be is refused then."""
    try:
        shape.read({name: object()})
    except Malformed as wrong:
        # What was read before a required field was found to be missing.
        return wrong.path[:1] == [name] and wrong.problem != "is missing"
    return False


def test_every_class_is_looked_at():
    assert {name for name, each in SECTIONS.items() if each.version} == SHAPES.keys() | OTHERS


@pytest.mark.parametrize("name", SHAPES)
def test_what_is_said_to_be_read_is_read(name):
    section = SECTIONS[name]
    read = {field for field in section.fields if is_read(SHAPES[name], field)}
    assert read == section.said_to_be(wire_page.READ)
    assert set(section.fields) - read == section.said_to_be({wire_page.IGNORED})


@pytest.mark.parametrize("name", SHAPES)
def test_what_is_read_is_on_the_page(name):
    assert set(SHAPES[name]._readers) <= SECTIONS[name].fields.keys()


def test_what_is_read_of_the_limits_of_cells():
    fields = SECTIONS["NUMATopologyLimits"].said_to_be(wire_page.READ)
    good = {"cpu_allocation_ratio": 1.0, "ram_allocation_ratio": 1.0}
    request_schema.LIMITS.read({"numa_topology": good})
    for name in fields:
        with pytest.raises(Malformed, match=f"numa_topology.{name}: "):
            request_schema.LIMITS.read({"numa_topology": good | {name: object()}})


def test_every_image_property_is_used():
    section = SECTIONS["ImageMetaProps"]
    assert section.fields.keys() == section.said_to_be({wire_page.USED}) == KINDS.keys()


def test_what_is_sent_is_on_the_page():
    sent = wire_samples.sample("reply_select_destinations_4.5_objects_limits")["message"]["result"][
        0
    ][0]
    assert SECTIONS["Selection"].fields.keys() == sent["nova_object.data"].keys()
    assert SELECTION._readers.keys() == SECTIONS["Selection"].fields.keys()


CONTEXTS = SECTIONS["The context"]
VALUES = {"is_admin": True, "roles": ["a"], "client_timeout": 7}


@pytest.mark.parametrize("name", CONTEXTS.fields)
def test_an_entry_of_the_context_is_kept_as_is_said(name):
    context = RequestContext.from_dict({name: VALUES.get(name, "x")})
    assert (context != RequestContext()) == (CONTEXTS.fields[name] in wire_page.READ)


@pytest.mark.parametrize("call", wire_samples.names("call_*select_destinations*"))
def test_every_entry_of_a_context_is_on_the_page(call):
    # It is no entry, but stands beside them; the page has it in the text below.
    assert wire_samples.context(call).keys() - {"client_timeout"} <= CONTEXTS.fields.keys()


def refusal(place: str, name: str) -> str:
    """Return what is said of arguments in which a key has a value that nothing can have."""
    request_spec: dict[str, Any] = {"instance_type": FLAVOR}
    filter_properties: dict[str, Any] = {"group_updated": True}
    if place == "instance_properties":
        request_spec[place] = {name: object()}
    else:
        {"request_spec": request_spec, "filter_properties": filter_properties}[place][name] = (
            object()
        )
    try:
        decode_select_arguments(
            {"request_spec": request_spec, "filter_properties": filter_properties}
        )
    except InvalidInput as refused:
        return refused.reason
    return ""


@pytest.mark.parametrize(
    ("place", "name"),
    [
        (place, name)
        for place in ("request_spec", "instance_properties", "filter_properties")
        for name in SECTIONS[place].fields
        # Anything but false will do.
        if name != "group_updated"
    ],
)
def test_a_key_of_the_dictionaries_is_read_as_is_said(place, name):
    where = f"request_spec.{place}" if place == "instance_properties" else place
    read = refusal(place, name).startswith(f"{where}.{name}: ")
    assert read == (SECTIONS[place].fields[name] in wire_page.READ)


@pytest.mark.parametrize(
    "call",
    [each for each in wire_samples.names("call_*select_destinations_4.0*") if "raw" not in each],
)
def test_every_key_of_derived_dictionaries_is_on_the_page(call):
    arguments = wire_samples.arguments(call)
    for place in ("request_spec", "filter_properties"):
        assert arguments[place].keys() <= SECTIONS[place].fields.keys()
    properties = arguments["request_spec"]["instance_properties"]
    assert properties.keys() <= SECTIONS["instance_properties"].fields.keys()
