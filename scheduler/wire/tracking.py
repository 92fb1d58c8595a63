# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Decode the tracking casts of Nova's compute and API services."""

from collections.abc import Callable
from typing import Any

from inventory.objects.aggregate import Aggregate
from inventory.objects.field_types import (
    INSTANCE_UUID,
    INTEGER,
    NAME,
    SIZE,
    TEXT,
    TRUTH,
    UUID,
    FieldType,
    Malformed,
    list_of,
    map_of,
    nullable,
    or_none,
    read_under,
    typed,
)
from inventory.objects.object_schema import NAME_KEY, Fields, ObjectSchema, object_list
from scheduler.objects.instance import Instance
from scheduler.wire.arguments import refusing_malformed
from scheduler.wire.image_properties import FORMER_NAMES, KINDS, bounded
from scheduler.wire.request_schema import FLAVOR, HOSTS, MAX_INSTANCES

_IMAGE = "image_"
_SYSTEM_METADATA = map_of(or_none(TEXT))


def _read_image_properties(system_metadata: Any) -> dict[str, str]:
    """Read the properties of an instance's image, as texts, out of its other system metadata."""
    former: dict[str, str] = {}
    found: dict[str, str] = {}
    for name, text in _SYSTEM_METADATA.read(system_metadata).items():
        if text is not None and name.startswith(_IMAGE):
            given = name.removeprefix(_IMAGE)
            current = FORMER_NAMES.get(given, given)
            (found if current == given else former)[current] = _normalized(current, text)
    return bounded(former | found)


def _normalized(name: str, text: str) -> str:
    """Return a property's value as requests have it: "True" where an instance has "yes"."""
    kind = KINDS.get(name)
    try:
        return text if kind is None else str(kind.read(text))
    except Malformed:
        return text


def _write_image_properties(properties: dict[str, str]) -> Fields:
    return {_IMAGE + name: text for name, text in properties.items()}


def _normalize_instance(instance: Fields) -> None:
    flavor = instance.get("flavor")
    if flavor is not None:
        instance["flavor_name"] = flavor.name
        instance.setdefault("instance_type_id", flavor.id)


def _normalize_aggregate(aggregate: Fields) -> None:
    if "id" not in aggregate and "uuid" not in aggregate:
        raise Malformed("is missing").under("uuid")


AGGREGATE = ObjectSchema(
    Aggregate,
    "1.3",
    {
        "id": INTEGER,
        "uuid": UUID,
        "name": NAME,
        "hosts": nullable(HOSTS),
        "metadata": nullable(map_of(TEXT)),
    },
    normalize=_normalize_aggregate,
)
INSTANCE = ObjectSchema(
    Instance,
    "2.8",
    {
        "uuid": INSTANCE_UUID,
        **typed(nullable(NAME), "host node project_id user_id vm_state task_state"),
        **typed(nullable(NAME), "image_ref os_type availability_zone"),
        **typed(nullable(INTEGER), "vcpus root_gb ephemeral_gb power_state instance_type_id"),
        "memory_mb": nullable(SIZE),
        "hidden": TRUTH,
        "flavor": FLAVOR.kind,
        "system_metadata": FieldType(_read_image_properties, _write_image_properties),
    },
    renamed={"system_metadata": "image_properties"},
    normalize=_normalize_instance,
)
_AGGREGATES = object_list("AggregateList", "1.3", AGGREGATE.kind)


def _read_aggregates(value: Any) -> list[Aggregate]:
    """Read a list, an AggregateList or a single one."""
    if isinstance(value, dict) and value.get(NAME_KEY) == AGGREGATE.name:
        value = [value]
    return list(_AGGREGATES.read(value))


# Of each argument of a cast.
_READERS: dict[str, Callable[[Any], Any]] = {
    "aggregates": _read_aggregates,
    "aggregate": AGGREGATE.read,
    "host_name": NAME.read,
    "instance_info": object_list("InstanceList", "2.6", INSTANCE.kind, MAX_INSTANCES).read,
    "instance_uuid": INSTANCE_UUID.read,
    "instance_uuids": list_of(INSTANCE_UUID, MAX_INSTANCES).read,
}


@refusing_malformed
def decode_argument(name: str, value: Any) -> Any:
    """Decode an argument of a cast, null where it is missing; raise InvalidInput."""
    return read_under(name, _READERS[name], value)
