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
    TEXT,
    UUID,
    Malformed,
    list_of,
    map_of,
    nullable,
    read_under,
)
from inventory.objects.object_schema import NAME_KEY, Fields, ObjectSchema, object_list
from scheduler.wire.arguments import refusing_malformed
from scheduler.wire.request_schema import HOSTS, MAX_INSTANCES


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
    "instance_uuid": INSTANCE_UUID.read,
    "instance_uuids": list_of(INSTANCE_UUID, MAX_INSTANCES).read,
}


@refusing_malformed
def decode_argument(name: str, value: Any) -> Any:
    """Decode an argument of a cast, null where it is missing; raise InvalidInput."""
    return read_under(name, _READERS[name], value)
