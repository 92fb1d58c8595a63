# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Every captured object is read, and written again with the same values in all that is kept."""

import pytest

from inventory.objects.node_json import GUEST_TOPOLOGY, NUMA_TOPOLOGY
from scheduler.wire import replies, request_schema, tracking
from tests.unit.scheduler.wire import wire_samples

NAME, DATA = "nova_object.name", "nova_object.data"
SHAPES = {
    each.name: each
    for each in (
        tracking.AGGREGATE,
        replies.SELECTION,
        request_schema.LEVEL_PARAMS,
        request_schema.PCI_REQUESTS,
        request_schema.REQUEST_GROUP,
        request_schema.CELL,
        request_schema.DESTINATION,
        request_schema.FLAVOR,
        request_schema.GROUP,
        request_schema.IMAGE,
        request_schema.LIMITS,
        request_schema.REQUEST_SPEC,
        request_schema.RETRIES,
        request_schema.TRIED_HOST,
        GUEST_TOPOLOGY,
        NUMA_TOPOLOGY,
    )
}
# What nobody here needs, by class. Of a node all that is needed is kept.
LEFT_OUT = {
    "Aggregate": {"created_at", "updated_at", "deleted_at", "deleted"},
    "CellMapping": {
        # The URLs have passwords.
        *("id", "transport_url", "database_connection", "disabled", "created_at", "updated_at")
    },
    "Flavor": {"created_at", "updated_at", "deleted_at", "deleted"},
    "InstanceGroup": {"created_at", "updated_at", "deleted_at", "deleted"},
    "InstanceNUMACell": {"cpu_topology"},
}
# Nobody sends the first to a scheduler, and nobody here looks at the others.
NEVER_READ = {"obj_service", "obj_instance", "obj_instance_list"}
OBJECTS = sorted({*wire_samples.names("obj_*"), *wire_samples.names("newton_obj_*")} - NEVER_READ)


@pytest.mark.parametrize("name", OBJECTS + wire_samples.names("cast_*aggregate*"))
def test_what_is_read_is_written_again(name):
    for captured in objects_in(wire_samples.sample(name)):
        shape = SHAPES[captured[NAME]]
        written = shape.write(shape.read(captured))
        check(written, captured)
        assert shape.read(written) == shape.read(captured)


def objects_in(sample):
    """Yield the objects of a sample: its only one, those of a list, or those of a cast."""
    values = [sample["primitive"]] if "primitive" in sample else sample["message"]["args"].values()
    for each in values:
        if isinstance(each, dict) and each[NAME].endswith("List"):
            yield from each[DATA]["objects"]
        elif isinstance(each, dict):
            yield each
        elif isinstance(each, list):
            yield from (one for one in each if isinstance(one, dict))


def check(written, captured):
    """Check what is written of an object: all that was captured, save what nobody needs."""
    if not isinstance(captured, dict) or NAME not in captured:
        assert in_one_order(written) == in_one_order(captured)
        return
    assert written[NAME] == captured[NAME]
    ours, theirs = written[DATA], as_today(captured)
    for field in ours.keys() & theirs.keys():
        if isinstance(theirs[field], list):
            for pair in zip(in_one_order(ours[field]), in_one_order(theirs[field]), strict=True):
                check(*pair)
        else:
            check(ours[field], theirs[field])
    if captured[NAME] != "ComputeNode":
        assert theirs.keys() - ours.keys() <= LEFT_OUT.get(captured[NAME], set())


def as_today(captured):
    """Return the fields of an object in the words of the newest release."""
    data = dict(captured[DATA])
    if captured[NAME] == "InstanceNUMACell" and "pcpuset" not in data:
        pinned = data["cpu_policy"] == "dedicated"
        data |= {"pcpuset": data["cpuset"], "cpuset": []} if pinned else {"pcpuset": []}
    if captured[NAME] == "InstanceGroup" and "policy" not in data:
        data["policy"] = data["policies"][0]
    return data


def in_one_order(value):
    """Return a value with sets, which have the order that they happened to have, sorted."""
    if isinstance(value, list) and not any(isinstance(each, (dict, list)) for each in value):
        return sorted(value, key=str)
    return value
