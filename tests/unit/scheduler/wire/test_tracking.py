# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The tracking casts of all releases are understood."""

import pytest

from inventory.objects.aggregate import Aggregate
from scheduler.wire.errors import InvalidInput
from scheduler.wire.request_schema import MAX_INSTANCES
from scheduler.wire.tracking import decode_argument
from tests.builders import INSTANCE
from tests.unit.scheduler.wire import wire_samples

AGGREGATE = Aggregate(
    id=1,
    uuid="00000000-0000-0000-2222-000000000001",
    name="agg1",
    hosts=["compute1", "compute2"],
    metadata={"availability_zone": "az1", "ssd": "true"},
)
LETTERS = "0a1b2c3d-4e5f-6a7b-8c9d-aabbccddeeff"


@pytest.mark.parametrize("name", wire_samples.names("cast_*update_aggregates*"))
def test_update_aggregates(name):
    (aggregate,) = decode_argument("aggregates", wire_samples.arguments(name)["aggregates"])
    assert (aggregate.name, aggregate.hosts) == ("agg1", ["compute1", "compute2"])


def test_update_aggregates_takes_a_single_one():
    assert decode_argument("aggregates", wire_samples.primitive("obj_aggregate")) == [AGGREGATE]


@pytest.mark.parametrize("name", wire_samples.names("cast_*delete_aggregate"))
def test_delete_aggregate(name):
    assert decode_argument("aggregate", wire_samples.arguments(name)["aggregate"]).id == 1


@pytest.mark.parametrize("name", wire_samples.names("cast_*delete_instance_info"))
def test_delete_instance_info(name):
    assert (
        decode_argument("instance_uuid", wire_samples.arguments(name)["instance_uuid"]) == INSTANCE
    )


@pytest.mark.parametrize("name", wire_samples.names("cast_*sync_instance_info"))
def test_sync_instance_info(name):
    assert INSTANCE in decode_argument(
        "instance_uuids", wire_samples.arguments(name)["instance_uuids"]
    )


@pytest.mark.parametrize(
    ("given", "read"), [(LETTERS.upper(), LETTERS), (LETTERS, LETTERS), ("Any-Name", "any-name")]
)
def test_uuids_of_instances_are_read_in_lower_case(given, read):
    assert (
        decode_argument("instance_uuids", [given])
        == [decode_argument("instance_uuid", given)]
        == [read]
    )


def test_no_more_instances_of_a_host_are_read_than_a_request_may_have():
    assert len(decode_argument("instance_uuids", ["u"] * MAX_INSTANCES)) == MAX_INSTANCES
    with pytest.raises(InvalidInput, match="10001 items are more than 10000"):
        decode_argument("instance_uuids", ["u"] * (MAX_INSTANCES + 1))


@pytest.mark.parametrize(
    "name", ["aggregate", "aggregates", "host_name", "instance_uuid", "instance_uuids"]
)
def test_nonsense_is_refused(name):
    with pytest.raises(InvalidInput):
        decode_argument(name, None)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("host_name", None, "host_name: null is not text"),
        ("instance_uuid", {}, "instance_uuid: a dict is not text"),
        ("instance_uuids", ["a", []], "instance_uuids[1]: a list is not text"),
        ("aggregate", {"name": "a"}, "aggregate.uuid: is missing"),
        ("aggregates", [{"id": 1}, {}], "aggregates[1].uuid: is missing"),
        ("aggregates", None, "aggregates: null is not a list"),
    ],
)
def test_the_malformed_field_is_named(name, value, reason):
    with pytest.raises(InvalidInput) as refused:
        decode_argument(name, value)
    assert refused.value.reason == reason
