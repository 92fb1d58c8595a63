# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The tracking casts of all releases are understood."""

import pytest

from inventory.objects.aggregate import Aggregate
from scheduler.host_cache.nova_casts import MAX_ON_A_HOST
from scheduler.wire import tracking
from scheduler.wire.errors import InvalidInput
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


@pytest.mark.parametrize("name", ["cast_update_instance_info", "cast_newton_update_instance_info"])
def test_update_instance_info(name):
    arguments = wire_samples.arguments(name)
    assert decode_argument("host_name", arguments["host_name"]) == "compute1"
    instance, *_ = decode_argument("instance_info", arguments["instance_info"])
    assert (instance.uuid, instance.memory_mb, instance.flavor.vcpus) == (INSTANCE, 2048, 2)


@pytest.mark.parametrize("name", ["cast_update_instance_info", "cast_newton_update_instance_info"])
def test_an_instance_tells_its_flavor_and_the_properties_of_its_image(name):
    instance, *_ = decode_argument("instance_info", wire_samples.arguments(name)["instance_info"])
    assert (instance.instance_type_id, instance.flavor_name) == (1, "m1.small")
    assert instance.image_properties == {"min_disk": "1"}


def an_instance(**changes):
    """Return what is read of the captured instance with some fields changed or left out."""
    primitive = wire_samples.primitive("obj_instance")
    data = primitive["nova_object.data"] | changes
    primitive["nova_object.data"] = {name: each for name, each in data.items() if each != ABSENT}
    (instance,) = decode_argument("instance_info", [primitive])
    return instance


ABSENT = object()


def test_the_number_of_a_flavor_is_also_in_the_flavor():
    assert an_instance(instance_type_id=ABSENT).instance_type_id == 1
    assert an_instance(instance_type_id=5).instance_type_id == 5


@pytest.mark.parametrize("absent", [ABSENT, None])
def test_what_was_not_loaded_is_unknown(absent):
    instance = an_instance(flavor=absent, instance_type_id=absent, system_metadata=absent)
    assert (instance.flavor, instance.instance_type_id, instance.flavor_name) == (None,) * 3
    assert instance.image_properties is None


@pytest.mark.parametrize(
    ("system_metadata", "expected"),
    [
        ({}, {}),
        ({"boot_roles": "member", "owner_user_name": None}, {}),
        ({"image_os_distro": "debian", "image_os_type": None}, {"os_distro": "debian"}),
        ({"image_hw_qemu_guest_agent": "yes"}, {"hw_qemu_guest_agent": "True"}),
        ({"image_hw_qemu_guest_agent": "perhaps"}, {"hw_qemu_guest_agent": "perhaps"}),
        ({"image_hw_video_ram": "016"}, {"hw_video_ram": "16"}),
        ({"image_min_ram": 512}, {"min_ram": "512"}),
        ({"image_architecture": "x86_64"}, {"hw_architecture": "x86_64"}),
        (
            {"image_hw_architecture": "aarch64", "image_architecture": "x86_64"},
            {"hw_architecture": "aarch64"},
        ),
        ({"image_of_mine": "yes", "image_": "1"}, {"of_mine": "yes", "": "1"}),
    ],
)
def test_image_properties_are_texts_as_requests_have_them(system_metadata, expected):
    assert an_instance(system_metadata=system_metadata).image_properties == expected


def test_an_instance_is_written_as_it_was_read():
    read = an_instance(system_metadata={"image_os_distro": "debian", "boot_roles": "member"})
    written = tracking.INSTANCE.write(read)
    assert written["nova_object.data"]["system_metadata"] == {"image_os_distro": "debian"}
    assert decode_argument("instance_info", [written]) == [read]


def test_update_instance_info_may_be_empty():
    arguments = wire_samples.arguments("cast_update_instance_info_empty_list")
    assert decode_argument("instance_info", arguments["instance_info"]) == []


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
    assert an_instance(uuid=given).uuid == read


@pytest.mark.parametrize(
    ("name", "one"), [("instance_uuids", "u"), ("instance_info", {"uuid": "u"})]
)
def test_no_more_instances_are_read_than_are_kept_of_a_host(name, one):
    assert len(decode_argument(name, [one] * MAX_ON_A_HOST)) == MAX_ON_A_HOST
    with pytest.raises(InvalidInput, match="10001 items are more than 10000"):
        decode_argument(name, [one] * (MAX_ON_A_HOST + 1))


@pytest.mark.parametrize(
    "name",
    ["aggregate", "aggregates", "host_name", "instance_uuid", "instance_uuids", "instance_info"],
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
        (
            "instance_info",
            [{"uuid": "u1", "system_metadata": {"image_a": []}}],
            "instance_info[0].system_metadata.image_a: a list is not text",
        ),
    ],
)
def test_the_malformed_field_is_named(name, value, reason):
    with pytest.raises(InvalidInput) as refused:
        decode_argument(name, value)
    assert refused.value.reason == reason
