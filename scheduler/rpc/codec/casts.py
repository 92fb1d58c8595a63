# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The tracking casts: what compute and API services tell every scheduler."""

import re
from typing import Any

from scheduler.objects.aggregate import Aggregate
from scheduler.objects.instance import Instance
from scheduler.objects.kinds import (
    INTEGER,
    NAME,
    SIZE,
    TEXT,
    TRUTH,
    UUID,
    Kind,
    Malformed,
    list_of,
    map_of,
    nullable,
    or_none,
    read_under,
)
from scheduler.objects.shape import NAME_KEY, Fields, Shape, object_list
from scheduler.rpc.codec.glance_names import FORMER_NAMES
from scheduler.rpc.codec.image_properties import KINDS
from scheduler.rpc.codec.refusal import refusing_malformed
from scheduler.rpc.codec.shapes import FLAVOR, HOSTS, MOST_INSTANCES

_IMAGE = "image_"
_CANONICAL = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_SYSTEM_METADATA = map_of(or_none(TEXT))


def _read_instance_uuid(value: Any) -> str:
    """Read a uuid in the letter case in which rows and claims have it."""
    uuid: str = UUID.read(value)
    return uuid.lower() if _CANONICAL.fullmatch(uuid) else uuid


_INSTANCE_UUID = Kind(_read_instance_uuid, UUID.write)


def _read_image_properties(system_metadata: Any) -> dict[str, str]:
    """Read the properties of an instance's image, as texts, out of its other system metadata."""
    former: dict[str, str] = {}
    found: dict[str, str] = {}
    for name, text in _SYSTEM_METADATA.read(system_metadata).items():
        if text is not None and name.startswith(_IMAGE):
            given = name.removeprefix(_IMAGE)
            ours = FORMER_NAMES.get(given, given)
            (found if ours == given else former)[ours] = _as_requests_have_it(ours, text)
    return former | found


def _as_requests_have_it(name: str, text: str) -> str:
    """Return the text of a property's value: instances have "yes" where requests have True."""
    kind = KINDS.get(name)
    try:
        return text if kind is None else str(kind.read(text))
    except Malformed:
        return text


def _write_image_properties(properties: dict[str, str]) -> Fields:
    return {_IMAGE + name: text for name, text in properties.items()}


def _settle_instance(instance: Fields) -> None:
    flavor = instance.get("flavor")
    if flavor is not None:
        instance["flavor_name"] = flavor.name
        instance.setdefault("instance_type_id", flavor.id)


def _settle_aggregate(aggregate: Fields) -> None:
    if "id" not in aggregate and "uuid" not in aggregate:
        raise Malformed("is missing").under("uuid")


AGGREGATE = Shape(
    Aggregate,
    "1.3",
    {
        "id": INTEGER,
        "uuid": UUID,
        "name": NAME,
        "hosts": nullable(HOSTS),
        "metadata": nullable(map_of(TEXT)),
    },
    settle=_settle_aggregate,
)
INSTANCE = Shape(
    Instance,
    "2.8",
    {
        "uuid": _INSTANCE_UUID,
        "host": nullable(NAME),
        "node": nullable(NAME),
        "project_id": nullable(NAME),
        "user_id": nullable(NAME),
        "vcpus": nullable(INTEGER),
        "memory_mb": nullable(SIZE),
        "root_gb": nullable(INTEGER),
        "ephemeral_gb": nullable(INTEGER),
        "vm_state": nullable(NAME),
        "task_state": nullable(NAME),
        "power_state": nullable(INTEGER),
        "instance_type_id": nullable(INTEGER),
        "image_ref": nullable(NAME),
        "os_type": nullable(NAME),
        "availability_zone": nullable(NAME),
        "hidden": TRUTH,
        "flavor": FLAVOR.kind,
        "system_metadata": Kind(_read_image_properties, _write_image_properties),
    },
    renamed={"system_metadata": "image_properties"},
    settle=_settle_instance,
)
_AGGREGATES = object_list("AggregateList", "1.3", AGGREGATE.kind)
_INSTANCES = object_list("InstanceList", "2.6", INSTANCE.kind, MOST_INSTANCES)
_UUIDS = list_of(_INSTANCE_UUID, MOST_INSTANCES)


@refusing_malformed
def decode_aggregates(value: Any) -> list[Aggregate]:
    """Read ``aggregates`` of update_aggregates: a list, an AggregateList or a single one."""
    if isinstance(value, dict) and value.get(NAME_KEY) == AGGREGATE.name:
        value = [value]
    return list(read_under("aggregates", _AGGREGATES.read, value))


@refusing_malformed
def decode_aggregate(value: Any) -> Aggregate:
    """Read ``aggregate`` of delete_aggregate."""
    return read_under("aggregate", AGGREGATE.read, value)


@refusing_malformed
def decode_instances(value: Any) -> list[Instance]:
    """Read ``instance_info`` of update_instance_info."""
    return list(read_under("instance_info", _INSTANCES.read, value))


@refusing_malformed
def decode_instance_uuids(value: Any) -> list[str]:
    """Read ``instance_uuids`` of sync_instance_info."""
    return list(read_under("instance_uuids", _UUIDS.read, value))


@refusing_malformed
def decode_instance_uuid(value: Any) -> str:
    """Read ``instance_uuid`` of delete_instance_info."""
    return str(read_under("instance_uuid", _INSTANCE_UUID.read, value))


@refusing_malformed
def decode_host_name(value: Any) -> str:
    """Read ``host_name`` of the casts about instances."""
    return str(read_under("host_name", NAME.read, value))
