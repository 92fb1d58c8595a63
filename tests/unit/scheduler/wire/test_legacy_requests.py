# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The dictionaries of RPC 4.0, in both dialects, and the one in notifications."""

import json

import pytest

from scheduler.objects.request_spec import SchedulerRetries, TriedHost
from scheduler.objects.selection import SchedulerLimits
from scheduler.wire.arguments import decode_select_arguments
from scheduler.wire.errors import InvalidInput
from scheduler.wire.legacy_requests import encode_legacy
from scheduler.wire.request_schema import REQUEST_SPEC
from tests.builders import GROUP, INSTANCE, a_request
from tests.unit.scheduler.wire import wire_samples

A_FLAVOR = {"vcpus": 1, "memory_mb": 512, "root_gb": 5}


def read(request_spec=None, filter_properties=None):
    request_spec = {"instance_type": A_FLAVOR} | (request_spec or {})
    arguments = {"request_spec": request_spec, "filter_properties": filter_properties}
    return decode_select_arguments(arguments).spec


def test_flattened_dictionaries_of_newton():
    arguments = wire_samples.arguments("call_newton_select_destinations_4.0_raw_dicts")
    spec = decode_select_arguments(arguments).spec
    assert [cell.pcpuset for cell in spec.numa_topology.cells] == [{0, 1}, {2, 3}]
    assert [request.alias_name for request in spec.pci_requests.requests] == ["a1"]
    assert spec.instance_group.policy == "anti-affinity"
    assert (spec.instance_group.hosts, spec.instance_group.members) == (["compute1"], [])
    assert spec.limits == SchedulerLimits(memory_mb=12288)
    assert spec.retry == SchedulerRetries(num_attempts=1)
    assert (spec.user_id, spec.availability_zone) == ("user1", "nova")
    assert spec.image.created_at == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize("size", ["minimal", "full"])
def test_derived_dictionaries_say_what_the_spec_said(size):
    whole = REQUEST_SPEC.read(wire_samples.primitive(f"obj_request_spec_{size}"))
    dicts = wire_samples.sample(f"legacy_dicts_from_{size}_spec")
    spec = decode_select_arguments(
        {key: dicts[key] for key in ("request_spec", "filter_properties")}
    ).spec
    lost = {"id", "network_metadata", "requested_networks", "requested_resources", "is_bfv"}
    for name in whole.__slots__:
        if name not in lost | {"request_level_params", "instance_group"}:
            assert getattr(spec, name) == getattr(whole, name), name
    if size == "full":
        assert spec.instance_group.members == whole.instance_group.members
        assert spec.instance_group.uuid == whole.instance_group.uuid
        assert spec.retry == SchedulerRetries(2, [TriedHost("compute1", "compute1")])


@pytest.mark.parametrize("name", ["legacy_build_request_spec", "legacy_newton_build_request_spec"])
def test_what_conductors_build(name):
    dicts = wire_samples.sample(name)
    spec = read(dicts.get("request_spec"), dicts.get("filter_properties"))
    assert spec.instance_uuid == INSTANCE


@pytest.mark.parametrize("name", ["numa_topology", "pci_requests"])
@pytest.mark.parametrize("form", ["object", "flattened", "json", "null"])
def test_numa_and_pci_come_in_every_form(name, form):
    whole = wire_samples.primitive("obj_request_spec_full")["nova_object.data"]
    given = {
        "object": whole[name],
        "flattened": encode_legacy(REQUEST_SPEC.read({"flavor": A_FLAVOR} | {name: whole[name]}))[
            "instance_properties"
        ][name],
        "json": json.dumps(whole[name]),
        "null": None,
    }[form]
    expected = None if form == "null" else getattr(REQUEST_SPEC.read(whole), name)
    assert getattr(read({"instance_properties": {name: given}}), name) == expected


def test_missing_dictionaries_mean_nothing_asked():
    spec = read()
    assert (spec.num_instances, spec.image, spec.retry, spec.ignore_hosts) == (1, None, None, None)
    assert (spec.scheduler_hints, spec.instance_group) == ({}, None)


def test_empty_dictionaries_stand_for_none():
    spec = read({"image": {}}, {"retry": {}, "limits": {}})
    assert (spec.image, spec.retry, spec.limits) == (None, None, SchedulerLimits())


def test_glance_sends_null_for_what_it_does_not_know():
    image = read({"image": {"name": None, "min_ram": None, "properties": None}}).image
    assert (image.id, image.name, image.min_ram) == (None, None, None)


def test_instance_properties_may_be_an_instance():
    spec = read({"instance_properties": wire_samples.primitive("obj_instance")})
    assert (spec.instance_uuid, spec.project_id) == (INSTANCE, "project1")


def test_a_group_object_goes_before_scattered_names():
    group = {"policy": "affinity", "hosts": ["h1"]}
    spec = read(None, {"instance_group": group, "group_updated": True, "group_hosts": ["h2"]})
    assert (spec.instance_group.policy, spec.instance_group.hosts) == ("affinity", ["h1"])


@pytest.mark.parametrize(("hint", "uuid"), [(GROUP, GROUP), ("web", None), (["a", "b"], None)])
def test_the_group_is_named_by_the_hint_if_that_is_a_uuid(hint, uuid):
    properties = {"group_updated": True, "scheduler_hints": {"group": hint}}
    assert read(None, properties).instance_group.uuid == uuid


@pytest.mark.parametrize(
    ("request_spec", "filter_properties", "path"),
    [
        ([], None, "request_spec"),
        ({"instance_properties": 7}, None, "request_spec.instance_properties"),
        ({}, "x", "filter_properties"),
        ({"instance_type": {}}, None, "request_spec.instance_type.vcpus"),
        ({"instance_properties": {"uuid": []}}, None, "request_spec.instance_properties.uuid"),
        ({"image": {"size": "big"}}, None, "request_spec.image.size"),
        (
            {},
            {"retry": {"hosts": [["h", []]]}},
            "filter_properties.retry.hosts[0].hypervisor_hostname",
        ),
        ({}, {"retry": {"hosts": [["h"]]}}, "filter_properties.retry.hosts[0]"),
        ({}, {"scheduler_hints": []}, "filter_properties.scheduler_hints"),
        ({}, {"scheduler_hints": {"a": {}}}, "filter_properties.scheduler_hints.a[0]"),
        ({}, {"instance_group": {"hosts": 1}}, "filter_properties.instance_group.hosts"),
        ({}, {"group_updated": 1, "group_hosts": 1}, "filter_properties.group_hosts"),
        ({}, {"group_updated": 1, "group_policies": [{}]}, "filter_properties.group_policies[0]"),
    ],
)
def test_a_refusal_names_the_path_that_the_caller_wrote(request_spec, filter_properties, path):
    if isinstance(request_spec, dict):
        request_spec = {"instance_type": A_FLAVOR} | request_spec
    with pytest.raises(InvalidInput) as refused:
        decode_select_arguments(
            {"request_spec": request_spec, "filter_properties": filter_properties}
        )
    assert refused.value.reason.startswith(f"{path}: ")


def test_the_notification_of_a_plain_request_is_as_before():
    captured = wire_samples.sample("notification_legacy_start_simple")["message"]["payload"][
        "request_spec"
    ]
    spec = decode_select_arguments({"request_spec": _without_leak(captured)}).spec
    payload = encode_legacy(spec)
    assert payload.keys() == captured.keys()
    assert payload["instance_properties"].keys() == captured["instance_properties"].keys()
    assert payload["image"].items() >= captured["image"].items()
    assert payload["num_instances"] == captured["num_instances"]
    known = captured["instance_type"].keys() - {"created_at", "updated_at"}
    assert payload["instance_type"].keys() == known


def _without_leak(request_spec):
    properties = request_spec["instance_properties"]
    leak = properties["pci_requests"]
    properties["pci_requests"] = {"requests": leak["_obj_requests"]}
    return request_spec


def test_the_notification_of_a_full_request_is_flattened():
    spec = REQUEST_SPEC.read(wire_samples.primitive("obj_request_spec_full"))
    payload = encode_legacy(spec)
    text = json.dumps(payload)
    assert "nova_object" not in text
    assert "://" not in text
    assert "token" not in text
    properties = payload["instance_properties"]
    assert [cell["pcpuset"] for cell in properties["numa_topology"]["cells"]] == [[0, 1], [2, 3]]
    assert [each["alias_name"] for each in properties["pci_requests"]["requests"]] == ["a1"]
    assert (properties["uuid"], properties["memory_mb"]) == (INSTANCE, 2048)
    assert payload["image"]["created_at"] == "2026-01-01T00:00:00.000000"


def test_the_notification_of_a_request_without_image_or_uuid():
    payload = encode_legacy(a_request(instance_uuid=None))
    assert payload["image"] == {}
    assert payload["instance_properties"]["uuid"] is None
