# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Every captured call of select_destinations is understood, whatever release sent it."""

import pytest

from inventory.objects.pci_and_network import InstancePCIRequest, NetworkMetadata, NetworkRequest
from scheduler.objects.request_spec import (
    CellMapping,
    Destination,
    RequestGroup,
    RequestLevelParams,
    SchedulerRetries,
    TriedHost,
)
from scheduler.objects.selection import NUMATopologyLimits, SchedulerLimits
from scheduler.wire.arguments import (
    SelectArguments,
    decode_select_arguments,
    encode_select_arguments,
)
from scheduler.wire.errors import InvalidInput
from scheduler.wire.request_schema import REQUEST_SPEC, TIME
from tests.builders import GROUP, IMAGE, INSTANCE, a_request
from tests.unit.scheduler.wire import wire_samples

UUIDS = [f"00000000-0000-0000-1111-00000000000{n}" for n in (1, 2)]
CALLS = wire_samples.names("call_*select_destinations*")


def decoded(name):
    return decode_select_arguments(wire_samples.arguments(name))


@pytest.mark.parametrize("name", CALLS)
def test_the_figures_that_all_samples_share(name):
    spec = decoded(name).spec
    assert (spec.vcpus, spec.memory_mb, spec.root_gb) == (2, 2048, 20)
    assert (spec.ephemeral_gb, spec.swap, spec.flavor.name) == (0, 0, "m1.small")
    assert (spec.instance_uuid, spec.project_id) == (INSTANCE, "project1")
    assert spec.image.id == IMAGE
    assert spec.image.properties.hw_architecture == "x86_64"
    assert spec.image.properties.hw_vm_mode == "hvm"


@pytest.mark.parametrize("name", CALLS)
def test_as_many_instances_as_the_captured_answer_has(name):
    result = wire_samples.sample(name.replace("call_", "reply_", 1))["message"]["result"]
    if result is not None:
        assert len(decoded(name).instance_uuids) == len(result)


@pytest.mark.parametrize(
    ("name", "uuids", "objects", "alternates", "version"),
    [
        ("call_select_destinations_4.0", [INSTANCE, None], False, False, None),
        ("call_newton_select_destinations_4.0_raw_dicts", [INSTANCE], False, False, None),
        ("call_newton_select_destinations_4.3", [INSTANCE], False, False, (1, 6)),
        (
            "call_newton_select_destinations_4.3_two_instances",
            [INSTANCE, None],
            False,
            False,
            (1, 6),
        ),
        ("call_select_destinations_4.4", UUIDS, False, False, (1, 15)),
        ("call_select_destinations_4.5_dicts", UUIDS[:1], False, False, (1, 15)),
        ("call_select_destinations_4.5_evacuate", UUIDS[:1], True, False, (1, 15)),
        ("call_select_destinations_4.5_objects_alternates_multi", UUIDS, True, True, (1, 15)),
    ],
)
def test_what_is_asked_for(name, uuids, objects, alternates, version):
    asked = decoded(name)
    assert asked.instance_uuids == uuids
    assert (asked.return_objects, asked.return_alternates) == (objects, alternates)
    assert asked.spec_version == version


def test_the_full_request():
    spec = decoded("call_select_destinations_4.5_full_spec").spec
    assert (spec.id, spec.user_id, spec.availability_zone) == (7, "user1", "az1")
    assert spec.flavor.extra_specs["hw:mem_page_size"] == "large"
    assert spec.image.properties.hw_numa_cpus == [{0, 1}, {2, 3}]
    assert spec.image.properties.traits_required == ["HW_CPU_X86_AVX2"]
    assert [(cell.cpuset, cell.pcpuset) for cell in spec.numa_topology.cells] == [
        (set(), {0, 1}),
        (set(), {2, 3}),
    ]
    assert spec.pci_requests.requests == [
        InstancePCIRequest(
            count=1,
            spec=[{"vendor_id": "8086", "product_id": "154d"}],
            alias_name="a1",
            request_id="00000000-0000-0000-4444-000000000001",
            numa_policy="legacy",
        )
    ]
    assert (spec.ignore_hosts, spec.force_hosts) == (["compute9"], ["compute3"])
    assert spec.force_nodes == ["compute3"]
    assert spec.has_forced_target
    assert spec.retry == SchedulerRetries(2, [TriedHost("compute1", "compute1")])
    network = NetworkMetadata({"physnet1"}, tunneled=False)
    assert spec.limits == SchedulerLimits(128, 12288, 100, NUMATopologyLimits(16.0, 1.5, network))
    assert spec.network_metadata == network
    assert spec.instance_group.policy == "anti-affinity"
    assert spec.instance_group.rules == {"max_server_per_host": 2}
    assert spec.instance_group.members == UUIDS
    assert spec.get_scheduler_hint("query") == '[">=","$free_ram_mb",1024]'
    assert spec.requested_resources == [
        RequestGroup(
            resources={"NET_BW_EGR_KILOBIT_PER_SEC": 1000},
            required_traits={"CUSTOM_PHYSNET_PHYSNET1"},
            aggregates=[["00000000-0000-0000-2222-000000000001"]],
            requester_id="00000000-0000-0000-6666-000000000001",
        )
    ]
    assert spec.request_level_params == RequestLevelParams(
        {"COMPUTE_NODE"}, {"COMPUTE_STATUS_DISABLED"}, [["_a", "_b"]]
    )
    assert spec.requested_networks == [NetworkRequest("00000000-0000-0000-7777-000000000001")]


def test_of_a_cell_only_uuid_and_name_are_kept():
    destination = decoded("call_select_destinations_4.5_full_spec").spec.requested_destination
    assert destination == Destination(
        host="compute3",
        node="compute3",
        cell=CellMapping("00000000-0000-0000-0000-0000000000c1", "cell1"),
        aggregates=["00000000-0000-0000-2222-000000000001"],
        forbidden_aggregates={"00000000-0000-0000-2222-000000000009"},
    )
    assert "://" not in repr(destination)


@pytest.mark.parametrize(
    ("name", "host", "ignored"),
    [
        ("cold_migrate", None, ["compute1"]),
        ("cold_migrate_targeted", "compute2", ["compute1"]),
        ("live_migrate", None, ["compute1"]),
        ("evacuate", "compute2", ["compute1"]),
        ("unshelve", "compute2", None),
    ],
)
def test_moves_stay_in_their_cell(name, host, ignored):
    spec = decoded(f"call_select_destinations_4.5_{name}").spec
    assert spec.requested_destination.cell.name == "cell1"
    assert (spec.requested_destination.host, spec.ignore_hosts) == (host, ignored)
    assert not spec.has_forced_target


def test_a_rebuild_is_known_by_its_hint():
    spec = decoded("call_select_destinations_4.5_rebuild").spec
    assert spec.is_rebuild
    assert spec.has_forced_target
    assert spec.id is None


@pytest.mark.parametrize("size", ["minimal", "full"])
@pytest.mark.parametrize(
    "release", ["newton", "ocata", "pike", "queens", "rocky", "train", "ussuri", "xena"]
)
def test_one_request_is_the_same_in_every_release(size, release):
    newest = wire_samples.primitive(f"obj_request_spec_{size}")
    old = wire_samples.primitive(f"obj_request_spec_{size}_as_{release}")
    assert REQUEST_SPEC.read(old) == REQUEST_SPEC.read(_what_both_say(newest, old))


def _what_both_say(newest, old):
    """Return the newest primitive without the fields that the old one does not have."""
    if isinstance(newest, list) and isinstance(old, list):
        return [_what_both_say(*pair) for pair in zip(newest, old, strict=True)]
    # These say the same in other words; that is for the codec to unify.
    reworded = ("InstanceNUMACell", "InstanceGroup")
    if not isinstance(newest, dict) or newest.get("nova_object.name") in reworded:
        return newest
    both = newest.keys() & old.keys() - {"nova_object.changes"}
    return {key: _what_both_say(newest[key], old[key]) for key in both}


def test_newton_has_neither_pinned_sets_nor_a_single_policy():
    spec = decoded("call_newton_select_destinations_4.3_full").spec
    assert [cell.pcpuset for cell in spec.numa_topology.cells] == [{0, 1}, {2, 3}]
    assert [cell.cpuset for cell in spec.numa_topology.cells] == [set(), set()]
    assert spec.instance_group.policy == "anti-affinity"


def test_a_floating_newton_cell_keeps_its_cpus():
    primitive = wire_samples.arguments("call_newton_select_destinations_4.3_full")
    data = primitive["spec_obj"]["nova_object.data"]
    for cell in data["numa_topology"]["nova_object.data"]["cells"]:
        cell["nova_object.data"]["cpu_policy"] = None
    cells = decode_select_arguments(primitive).spec.numa_topology.cells
    assert [(cell.cpuset, cell.pcpuset) for cell in cells] == [({0, 1}, set()), ({2, 3}, set())]


def test_a_later_release_may_say_more():
    arguments = wire_samples.arguments("call_select_destinations_4.5_objects_alternates")
    spec = arguments["spec_obj"]
    spec["nova_object.version"] = "1.99"
    spec["nova_object.data"]["wish"] = {"nova_object.name": "Wish"}
    asked = decode_select_arguments(arguments | {"return_wishes": True})
    assert asked.spec_version == (1, 99)


def test_null_counts_as_unset():
    arguments = wire_samples.arguments("call_select_destinations_4.5_objects_alternates")
    arguments["spec_obj"]["nova_object.data"] |= {
        "scheduler_hints": None,
        "limits": None,
        "security_groups": None,
        "requested_resources": None,
    }
    spec = decode_select_arguments(arguments).spec
    assert spec.scheduler_hints == {}
    assert spec.limits == SchedulerLimits()
    assert (spec.security_groups, spec.requested_resources) == ([], [])


@pytest.mark.parametrize(
    ("hints", "read"),
    [
        ({"a": ["x", "y"], "b": []}, {"a": ["x", "y"], "b": []}),
        ({"a": "x", "b": 7, "c": None}, {"a": ["x"], "b": ["7"]}),
        ({"a": [1, True]}, {"a": ["1", "True"]}),
    ],
)
def test_hints_are_lists_of_texts(hints, read):
    arguments = wire_samples.arguments("call_select_destinations_4.5_objects_alternates")
    arguments["spec_obj"]["nova_object.data"]["scheduler_hints"] = hints
    assert decode_select_arguments(arguments).spec.scheduler_hints == read


@pytest.mark.parametrize("uuids", [None, []])
def test_without_uuids_the_spec_says_how_many(uuids):
    arguments = wire_samples.arguments("call_select_destinations_4.4") | {"instance_uuids": uuids}
    assert decode_select_arguments(arguments).instance_uuids == [INSTANCE, None]


def test_the_number_in_the_spec_is_stale_where_uuids_are_given():
    arguments = wire_samples.arguments("call_select_destinations_4.5_cold_migrate")
    arguments["spec_obj"]["nova_object.data"]["num_instances"] = 5
    assert decode_select_arguments(arguments).instance_uuids == [INSTANCE]


def test_an_unversioned_spec_is_taken_for_the_oldest():
    spec = {"flavor": {"vcpus": 1, "memory_mb": 2, "root_gb": 3}, "instance_uuid": INSTANCE}
    asked = decode_select_arguments({"spec_obj": spec})
    assert (asked.spec.memory_mb, asked.spec_version) == (2, None)


@pytest.mark.parametrize("field", ["numa_topology", "pci_requests"])
def test_null_as_json_text_is_null_as_well(field):
    arguments = wire_samples.arguments("call_select_destinations_4.5_full_spec")
    arguments["spec_obj"]["nova_object.data"][field] = "null"
    assert getattr(decode_select_arguments(arguments).spec, field) is None


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:00:00.000000", "2026-01-01T00:00:00Z"),
        ("x", "xZ"),
        ("", "Z"),
        ("2026-01-01T00:00:0ZZ", "2026-01-01T00:00:0Z"),
    ],
)
def test_a_moment_that_was_read_is_read_as_it_is(given, read):
    assert TIME.read(given) == read
    assert TIME.read(read) == read


@pytest.mark.parametrize("uuids", [[INSTANCE], ["a", "b"], [None, None]])
def test_our_own_arguments_are_read_back(uuids):
    spec = a_request(instance_uuid=uuids[0], num_instances=len(uuids))
    asked = SelectArguments(spec, uuids, return_objects=True, spec_version=(1, 15))
    assert decode_select_arguments(encode_select_arguments(asked)) == asked


def test_the_group_of_a_legacy_request_is_named():
    assert (
        decoded("call_newton_select_destinations_4.0_raw_dicts").spec.instance_group.uuid == GROUP
    )


@pytest.mark.parametrize(
    ("sizes", "number", "error"),
    [
        ({"vcpus": 2**30 + 1}, 1, r"spec_obj\.flavor\.vcpus: 1073741825 is more than 1073741824"),
        ({"memory_mb": 2**28}, 8, r"spec_obj\.flavor\.memory_mb: 8 instances of 268435456 need"),
        ({"root_gb": 2**29, "ephemeral_gb": 2**29, "swap": 1}, 1, r"spec_obj\.flavor\.root_gb: "),
    ],
)
def test_nothing_that_the_columns_of_a_node_cannot_count(sizes, number, error):
    asked = encode_select_arguments(SelectArguments(a_request(**sizes), [None] * number))
    asked["spec_obj"]["nova_object.data"]["num_instances"] = number
    with pytest.raises(InvalidInput, match=error):
        decode_select_arguments(asked)
    asked["spec_obj"]["nova_object.data"]["flavor"]["nova_object.data"] |= dict.fromkeys(sizes, 1)
    assert len(decode_select_arguments(asked).instance_uuids) == number
