# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Payloads say the same of a request as Nova's, field by field, and no secrets."""

import json
from itertools import product
from typing import Any

import pytest
from hypothesis import given

from inventory.objects.instance_group import InstanceGroup
from inventory.objects.numa import InstanceNUMACell, InstanceNUMATopology
from inventory.objects.pci_and_network import InstancePCIRequest, InstancePCIRequests, SecurityGroup
from scheduler.objects.flavor_and_image import ImageMeta, ImageMetaProps
from scheduler.objects.request_spec import Destination, RequestSpec, SchedulerRetries, TriedHost
from scheduler.wire.arguments import decode_select_arguments
from scheduler.wire.legacy_requests import encode_legacy
from scheduler.wire.notification_payloads import encode_error_payload, encode_payload
from scheduler.wire.request_schema import REQUEST_SPEC
from tests.builders import INSTANCE, a_request
from tests.unit.scheduler.wire import notified, wire_samples
from tests.unit.scheduler.wire.strategies import requests

DATA = "nova_object.data"
SAMPLES = pytest.mark.parametrize(("phase", "kind"), list(product(notified.PHASES, notified.CALLS)))


def payload_of(**changes: Any) -> dict[str, Any]:
    """Return the data of the payload of a request, as a consumer reads it."""
    found: dict[str, Any] = json.loads(json.dumps(encode_payload(a_request(**changes))))
    return dict(found[DATA])


@SAMPLES
def test_a_versioned_payload_is_as_captured(phase: str, kind: str) -> None:
    payload = json.loads(json.dumps(encode_payload(notified.request(kind, phase))))
    assert payload == notified.payload("versioned", phase, kind)


@SAMPLES
def test_a_legacy_payload_is_as_captured(phase: str, kind: str) -> None:
    payload = {"request_spec": encode_legacy(notified.request(kind, phase))}
    assert json.loads(json.dumps(payload)) == notified.payload("legacy", phase, kind)


def test_what_is_not_given_is_null() -> None:
    captured = notified.payload("versioned", "start", "simple")[DATA]
    payload = payload_of(project_id=None)
    assert payload.keys() == captured.keys()
    given = {"instance_uuid", "user_id", "flavor", "num_instances"}
    assert {name: payload[name] for name in payload.keys() - given} == dict.fromkeys(
        payload.keys() - given
    ) | {"scheduler_hints": {}, "security_groups": []}
    assert payload["flavor"][DATA].keys() == captured["flavor"][DATA].keys()


@pytest.mark.parametrize("name", wire_samples.names("obj_request_spec_*"))
def test_the_request_of_any_release_has_all_the_fields(name: str) -> None:
    full = notified.payload("versioned", "start", "full_spec")[DATA]
    payload = json.loads(
        json.dumps(encode_payload(REQUEST_SPEC.read(wire_samples.primitive(name))))
    )[DATA]
    assert payload.keys() == full.keys()
    parts = {"flavor", "image", "instance_group", "numa_topology", "pci_requests", "retry"}
    for part in parts & {name for name, each in payload.items() if each}:
        assert payload[part].keys() == full[part].keys()
        assert payload[part][DATA].keys() == full[part][DATA].keys()


def test_of_lists_of_forced_hosts_the_first_is_named() -> None:
    payload = payload_of(force_hosts=["a", "b"], force_nodes=[], ignore_hosts=["c", "d"])
    assert (payload["force_hosts"], payload["force_nodes"]) == ("a", None)
    assert payload["ignore_hosts"] == ["c", "d"]


def test_a_destination_leaves_out_what_it_does_not_name() -> None:
    named = payload_of(requested_destination=Destination(node="n1"))["requested_destination"]
    assert named[DATA] == {"node": "n1", "aggregates": None}


def test_a_group_tells_its_policy_under_both_names() -> None:
    group = InstanceGroup("g", "affinity", rules={"max_server_per_host": 2})
    payload = payload_of(instance_group=group)["instance_group"][DATA]
    assert (payload["policy"], payload["policies"]) == ("affinity", ["affinity"])
    assert payload["rules"] == {"max_server_per_host": "2"}
    none = payload_of(instance_group=InstanceGroup("g"))["instance_group"][DATA]
    assert (none["policy"], none["policies"]) == (None, None)


def test_the_cells_of_a_guest_are_of_its_instance() -> None:
    cell = InstanceNUMACell(0, 512, {3, 1}, {2}, {1}, cpu_pinning={2: 7})
    payload = payload_of(numa_topology=InstanceNUMATopology([cell]))["numa_topology"][DATA]
    assert payload["instance_uuid"] == INSTANCE
    (first,) = payload["cells"]
    assert (first[DATA]["cpuset"], first[DATA]["pcpuset"]) == ([1, 3], [2])
    assert (first[DATA]["cpuset_reserved"], first[DATA]["cpu_pinning_raw"]) == ([1], {"2": 7})
    other = InstanceNUMATopology([cell], instance_uuid="other")
    assert payload_of(numa_topology=other)["numa_topology"][DATA]["instance_uuid"] == "other"


def test_devices_are_of_their_instance() -> None:
    asked = InstancePCIRequests(requests=[InstancePCIRequest(1, [{"vendor_id": None}])])
    payload = payload_of(pci_requests=asked)["pci_requests"][DATA]
    assert payload["instance_uuid"] == INSTANCE
    assert payload["requests"][0][DATA]["spec"] == [{"vendor_id": None}]


def test_hosts_that_were_tried_are_named_by_their_nodes() -> None:
    tried = SchedulerRetries(3, [TriedHost("h1", "n1"), TriedHost("h2"), TriedHost()])
    assert payload_of(retry=tried)["retry"][DATA] == {"num_attempts": 3, "hosts": ["n1", "h2", ""]}


def test_security_groups_are_named_by_uuid_or_name() -> None:
    groups = [SecurityGroup("web", "u1"), SecurityGroup("default")]
    assert payload_of(security_groups=groups)["security_groups"] == ["u1", "default"]


def test_properties_are_those_of_the_payload() -> None:
    given = {"hw_boot_menu": True, "unheard_of": 1, "hw_ephemeral_encryption_secret_uuid": "s"}
    image = ImageMeta(properties=ImageMetaProps(given))
    payload = payload_of(image=image)["image"][DATA]["properties"]
    assert payload["nova_object.version"] == "1.20"
    assert payload[DATA] == {"hw_boot_menu": True}


def test_an_error_tells_the_request_and_why() -> None:
    spec = a_request()
    payload = encode_error_payload(spec, "no room")
    # Nova has no such payload, and may have one some day.
    assert payload["nova_object.namespace"] == "berthmaster"
    assert payload[DATA] == {"request_spec": encode_payload(spec), "reason": "no room"}


@pytest.mark.parametrize("name", wire_samples.names("call_*select_destinations*"))
def test_no_secret_of_a_captured_call_is_sent(name: str) -> None:
    spec = decode_select_arguments(wire_samples.arguments(name)).spec
    for payload in (encode_payload(spec), encode_legacy(spec)):
        text = json.dumps(payload)
        assert not [each for each in ("://", "token1", "10.0.0.9") if each in text]


def test_the_captured_calls_have_secrets_to_tell() -> None:
    texts = [
        json.dumps(wire_samples.sample(name))
        for name in wire_samples.names("call_*select_destinations*")
    ]
    assert all("token1" in text for text in texts)
    assert any("mysql+pymysql://" in text for text in texts)


@given(requests)
def test_any_request_has_a_payload_that_does_not_change_with_it(spec: RequestSpec) -> None:
    payload = encode_payload(spec)
    text = json.dumps(payload)
    assert payload[DATA].keys() == notified.payload("versioned", "start", "simple")[DATA].keys()
    for each in (spec.ignore_hosts, spec.instance_group and spec.instance_group.hosts):
        if each is not None:
            each.append("another")
    spec.scheduler_hints["another"] = []
    spec.flavor.extra_specs["another"] = "one"
    assert json.dumps(payload) == text
