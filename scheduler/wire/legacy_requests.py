# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Requests as releases before RPC 4.5 send and know them, with the two dictionaries of 4.0.

Kilo and Liberty send flattened objects, later releases with a version cap send some of them whole.
Both become the fields of a flattened RequestSpec, which its schema reads. We send what Nova's
client does: unknown arguments are left out, and below 4.3 the dictionaries are made of the request.
"""

import re
from typing import Any

from inventory.objects.field_types import Malformed, mapping_of, read_under
from inventory.objects.object_schema import DATA_KEY, Fields, flattened, unpacked
from scheduler.objects.request_spec import RequestSpec
from scheduler.wire.request_schema import REQUEST_SPEC

Version = tuple[int, int]
# Versions that clients send, newest first; 4.1 and 4.2 only brought casts.
SENT: tuple[Version, ...] = ((4, 5), (4, 4), (4, 3), (4, 0))
# Unknown before 4.5.
_FLAGS = ("return_objects", "return_alternates")

_SPEC, _PROPERTIES = ("request_spec",), ("filter_properties",)
_INSTANCE = (*_SPEC, "instance_properties")
_INSTANCE_FIELDS = ("project_id", "user_id", "availability_zone", "numa_topology", "pci_requests")
_FLAVOR_FIELDS = ("root_gb", "ephemeral_gb", "memory_mb", "vcpus")
# Left out where they are null or empty.
_TARGETS = ("ignore_hosts", "force_hosts", "force_nodes", "requested_destination")
# group_members came with Queens, group_uuid with Train.
_GROUP_FIELDS = ("hosts", "policies", "members", "uuid")
# Field of RequestSpec -> the path of a dictionary, and the key there.
_SOURCES = {
    **{name: (_SPEC, name) for name in ("num_instances", "image")},
    "flavor": (_SPEC, "instance_type"),
    "instance_uuid": (_INSTANCE, "uuid"),
    **{name: (_INSTANCE, name) for name in _INSTANCE_FIELDS},
    **{
        name: (_PROPERTIES, name)
        for name in (*_TARGETS, "retry", "limits", "scheduler_hints", "instance_group")
    },
}
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def read_legacy(request_spec: Any, filter_properties: Any) -> RequestSpec:
    """Decode the dictionaries; raise Malformed with the path in them."""
    places = _places(request_spec, filter_properties)
    data = {field: places[place].get(name) for field, (place, name) in _SOURCES.items()}
    for field in ("image", "retry"):
        data[field] = data[field] or None  # an empty dict stands for null
    properties = places[_PROPERTIES]
    scattered = data["instance_group"] is None and bool(properties.get("group_updated"))
    if scattered:
        data["instance_group"] = {name: properties.get(f"group_{name}") for name in _GROUP_FIELDS}
    try:
        spec = REQUEST_SPEC.read(data)
    except Malformed as wrong:
        wrong.path[:] = _legacy_path(wrong.path, scattered)
        raise
    group, hint = spec.instance_group, spec.get_scheduler_hint("group")
    # Callers before Train send the uuid of the group in the hint only.
    if group is not None and group.uuid is None and _UUID.fullmatch(str(hint)):
        group.uuid = hint
    return spec


def encode_legacy(spec: RequestSpec) -> Fields:
    """Return the dictionary ``request_spec`` of legacy notifications, its objects flattened."""
    data = flattened(REQUEST_SPEC.write(spec))
    named = ("numa_topology", "pci_requests", "project_id", "user_id", "availability_zone")
    return {
        "num_instances": data["num_instances"],
        "image": _with_microseconds(data["image"] or {}),
        "instance_properties": {
            **{name: data[name] for name in named},
            "uuid": spec.instance_uuid,
            **{name: data["flavor"][name] for name in _FLAVOR_FIELDS},
        },
        "instance_type": data["flavor"],
    }


def newest_version(cap: Version | None) -> Version | None:
    """Return the newest version that a cap allows; None if it allows no version of SENT."""
    if cap is None:
        return SENT[0]
    # Major versions are incompatible.
    return next((each for each in SENT if each[0] == cap[0] and each <= cap), None)


def downgraded(arguments: Fields, version: Version) -> Fields:
    """Return the result of encode_select_arguments() in one of the versions of SENT."""
    if version >= (4, 5):
        return arguments
    found = {name: each for name, each in arguments.items() if name not in _FLAGS}
    if version >= (4, 4):
        return found
    spec, uuids = found["spec_obj"], found.pop("instance_uuids")
    if uuids:
        # Such a scheduler gets only the number of instances and the first of them.
        batch = {"num_instances": len(uuids), "instance_uuid": uuids[0]}
        spec = spec | {DATA_KEY: spec[DATA_KEY] | batch}
    if version >= (4, 3):
        return found | {"spec_obj": spec}
    return {
        "request_spec": _request_spec(spec[DATA_KEY]),
        "filter_properties": _filter_properties(spec[DATA_KEY]),
    }


def _places(request_spec: Any, filter_properties: Any) -> dict[tuple[str, ...], Fields]:
    """Return the dictionaries by their paths, empty where they are null."""
    spec = {} if request_spec is None else read_under("request_spec", mapping_of, request_spec)
    instance = spec.get("instance_properties")
    if instance is not None:
        path = "request_spec.instance_properties"
        instance = read_under(path, lambda value: unpacked(value, "Instance", "2"), instance)
    if filter_properties is not None:
        filter_properties = read_under("filter_properties", mapping_of, filter_properties)
    return {_SPEC: spec, _INSTANCE: instance or {}, _PROPERTIES: filter_properties or {}}


def _legacy_path(path: list[str | int], scattered: bool) -> list[str | int]:
    """Return the path in the dictionaries of a field of RequestSpec."""
    field, *rest = path
    if scattered and field == "instance_group":
        return [*_PROPERTIES, f"group_{rest[0]}", *rest[1:]]
    place, name = _SOURCES[str(field)]
    return [*place, name, *rest]


def _with_microseconds(image: Fields) -> Fields:
    # Times in legacy dictionaries have no zone and a fraction.
    times = {name: image[name] for name in ("created_at", "updated_at") if image.get(name)}
    return image | {name: f"{each.removesuffix('Z')}.000000" for name, each in times.items()}


def _request_spec(spec: Fields) -> Fields:
    flavor = spec["flavor"][DATA_KEY]
    return {
        "num_instances": spec["num_instances"],
        "image": flattened(spec["image"]) or {},
        "instance_properties": {
            **({"uuid": spec["instance_uuid"]} if "instance_uuid" in spec else {}),
            **{name: spec[name] for name in _INSTANCE_FIELDS if name in spec},
            **{name: flavor[name] for name in _FLAVOR_FIELDS},
        },
        "instance_type": spec["flavor"],
    }


def _filter_properties(spec: Fields) -> Fields:
    found = {name: spec[name] for name in _TARGETS if spec[name]}
    limits = spec["limits"][DATA_KEY]
    found["limits"] = {name: each for name, each in limits.items() if each is not None}
    if spec["retry"]:
        retry = spec["retry"][DATA_KEY]
        tried = [each[DATA_KEY] for each in retry["hosts"][DATA_KEY]["objects"]]
        hosts = [[each["host"], each["hypervisor_hostname"]] for each in tried]
        found["retry"] = {"num_attempts": retry["num_attempts"], "hosts": hosts}
    if spec["scheduler_hints"]:
        found["scheduler_hints"] = {
            hint: values[0] if len(values) == 1 else values
            for hint, values in spec["scheduler_hints"].items()
        }
    if spec["instance_group"]:
        group = spec["instance_group"][DATA_KEY]
        found["group_updated"] = True
        found |= {f"group_{name}": group[name] for name in _GROUP_FIELDS if name in group}
    return found
