# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The two dictionaries of RPC 4.0, read into a RequestSpec, and the one that notifications carry.

Kilo and Liberty send flattened objects, later releases that are capped send some of them whole.
Both dialects end as the fields of a flattened RequestSpec, which the one shape of it reads.
"""

import re
from typing import Any

from scheduler.objects.kinds import Malformed, mapping_of, read_under
from scheduler.objects.request_spec import RequestSpec
from scheduler.objects.shape import Fields, flattened, unpacked
from scheduler.rpc.codec.shapes import REQUEST_SPEC

_PLACES = {
    "request_spec": ("request_spec",),
    "instance_properties": ("request_spec", "instance_properties"),
    "filter_properties": ("filter_properties",),
}

# Field of RequestSpec -> where the dictionaries have it.
_SOURCES = {
    "num_instances": ("request_spec", "num_instances"),
    "image": ("request_spec", "image"),
    "flavor": ("request_spec", "instance_type"),
    "instance_uuid": ("instance_properties", "uuid"),
    "project_id": ("instance_properties", "project_id"),
    "user_id": ("instance_properties", "user_id"),
    "availability_zone": ("instance_properties", "availability_zone"),
    "numa_topology": ("instance_properties", "numa_topology"),
    "pci_requests": ("instance_properties", "pci_requests"),
    "ignore_hosts": ("filter_properties", "ignore_hosts"),
    "force_hosts": ("filter_properties", "force_hosts"),
    "force_nodes": ("filter_properties", "force_nodes"),
    "retry": ("filter_properties", "retry"),
    "limits": ("filter_properties", "limits"),
    "scheduler_hints": ("filter_properties", "scheduler_hints"),
    "instance_group": ("filter_properties", "instance_group"),
    "requested_destination": ("filter_properties", "requested_destination"),
}
# Field of InstanceGroup -> its name in filter_properties. group_members came with Queens,
# group_uuid with Train.
_GROUP_SOURCES = {
    "hosts": "group_hosts",
    "policies": "group_policies",
    "members": "group_members",
    "uuid": "group_uuid",
}
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def read_legacy(request_spec: Any, filter_properties: Any) -> RequestSpec:
    """Read the dictionaries; raises Malformed with the path as the caller knows it."""
    places = _places(request_spec, filter_properties)
    data = {field: places[place].get(name) for field, (place, name) in _SOURCES.items()}
    for field in ("image", "retry"):
        data[field] = data[field] or None  # an empty dict stands for none
    properties = places["filter_properties"]
    scattered = data["instance_group"] is None and bool(properties.get("group_updated"))
    if scattered:
        data["instance_group"] = {
            field: properties.get(name) for field, name in _GROUP_SOURCES.items()
        }
    try:
        spec = REQUEST_SPEC.read(data)
    except Malformed as wrong:
        wrong.path[:] = _legacy_path(wrong.path, scattered)
        raise
    _name_group(spec)
    return spec


def encode_legacy(spec: RequestSpec) -> Fields:
    """Return the dictionary ``request_spec`` for the payload of legacy notifications.

    All objects in it are flattened, as consumers know them from before Nova's own went astray.
    """
    data = flattened(REQUEST_SPEC.write(spec))
    named = ("numa_topology", "pci_requests", "project_id", "user_id", "availability_zone")
    sized = ("root_gb", "ephemeral_gb", "memory_mb", "vcpus")
    return {
        "num_instances": data["num_instances"],
        "image": _with_microseconds(data["image"] or {}),
        "instance_properties": {
            **{name: data[name] for name in named},
            "uuid": spec.instance_uuid,
            **{name: data["flavor"][name] for name in sized},
        },
        "instance_type": data["flavor"],
    }


def _places(request_spec: Any, filter_properties: Any) -> dict[str, Fields]:
    asked = {} if request_spec is None else read_under("request_spec", mapping_of, request_spec)
    properties = asked.get("instance_properties")
    if properties is not None:
        properties = read_under("request_spec.instance_properties", _instance_data, properties)
    if filter_properties is not None:
        filter_properties = read_under("filter_properties", mapping_of, filter_properties)
    return {
        "request_spec": asked,
        "instance_properties": properties or {},
        "filter_properties": filter_properties or {},
    }


def _instance_data(value: Any) -> Fields:
    return unpacked(value, "Instance", "2")


def _name_group(spec: RequestSpec) -> None:
    """Take the uuid of the group from the hint: callers before Train do not send it elsewhere."""
    group, hint = spec.instance_group, spec.get_scheduler_hint("group")
    if group is not None and group.uuid is None and _UUID.fullmatch(str(hint)):
        group.uuid = hint


def _legacy_path(path: list[str | int], scattered: bool) -> list[str | int]:
    """Turn the path to a field of RequestSpec into the one that the caller wrote."""
    field, *rest = path
    if scattered and field == "instance_group":
        return ["filter_properties", _GROUP_SOURCES[str(rest[0])], *rest[1:]]
    place, name = _SOURCES[str(field)]
    return [*_PLACES[place], name, *rest]


def _with_microseconds(image: Fields) -> Fields:
    # Moments in legacy dictionaries have no zone and a fraction.
    moments = {name: image[name] for name in ("created_at", "updated_at") if image.get(name)}
    return image | {name: f"{each.removesuffix('Z')}.000000" for name, each in moments.items()}
