# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The tracking casts of all releases are understood."""

import pytest

from scheduler.objects import Aggregate
from scheduler.rpc import codec
from scheduler.rpc.failures import InvalidInput
from tests.builders import INSTANCE
from tests.unit.scheduler.rpc import wire

AGGREGATE = Aggregate(
    id=1,
    uuid="00000000-0000-0000-2222-000000000001",
    name="agg1",
    hosts=["compute1", "compute2"],
    metadata={"availability_zone": "az1", "ssd": "true"},
)


@pytest.mark.parametrize("name", wire.names("cast_*update_aggregates*"))
def test_update_aggregates(name):
    (aggregate,) = codec.decode_aggregates(wire.arguments(name)["aggregates"])
    assert (aggregate.name, aggregate.hosts) == ("agg1", ["compute1", "compute2"])


def test_update_aggregates_takes_a_single_one():
    assert codec.decode_aggregates(wire.primitive("obj_aggregate")) == [AGGREGATE]


@pytest.mark.parametrize("name", wire.names("cast_*delete_aggregate"))
def test_delete_aggregate(name):
    assert codec.decode_aggregate(wire.arguments(name)["aggregate"]).id == 1


@pytest.mark.parametrize("name", ["cast_update_instance_info", "cast_newton_update_instance_info"])
def test_update_instance_info(name):
    arguments = wire.arguments(name)
    assert codec.decode_host_name(arguments["host_name"]) == "compute1"
    instance, *_ = codec.decode_instances(arguments["instance_info"])
    assert (instance.uuid, instance.memory_mb, instance.flavor.vcpus) == (INSTANCE, 2048, 2)


def test_update_instance_info_may_be_empty():
    arguments = wire.arguments("cast_update_instance_info_empty_list")
    assert codec.decode_instances(arguments["instance_info"]) == []


@pytest.mark.parametrize("name", wire.names("cast_*delete_instance_info"))
def test_delete_instance_info(name):
    assert codec.decode_instance_uuid(wire.arguments(name)["instance_uuid"]) == INSTANCE


@pytest.mark.parametrize("name", wire.names("cast_*sync_instance_info"))
def test_sync_instance_info(name):
    assert INSTANCE in codec.decode_instance_uuids(wire.arguments(name)["instance_uuids"])


@pytest.mark.parametrize(
    "decode",
    [
        codec.decode_aggregate,
        codec.decode_aggregates,
        codec.decode_host_name,
        codec.decode_instance_uuid,
        codec.decode_instance_uuids,
        codec.decode_instances,
        codec.decode_request_spec,
    ],
)
def test_nonsense_is_refused(decode):
    with pytest.raises(InvalidInput):
        decode(None)
