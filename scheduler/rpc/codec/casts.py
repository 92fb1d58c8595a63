# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The tracking casts: what compute and API services tell every scheduler."""

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
    list_of,
    map_of,
    nullable,
)
from scheduler.objects.shape import NAME_KEY, Shape, object_list
from scheduler.rpc.codec.refusal import refusing_malformed
from scheduler.rpc.codec.shapes import FLAVOR, HOSTS, MOST_HOSTS

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
)
INSTANCE = Shape(
    Instance,
    "2.8",
    {
        "uuid": UUID,
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
    },
)
_AGGREGATES = object_list("AggregateList", "1.3", AGGREGATE.kind)
_INSTANCES = object_list("InstanceList", "2.6", INSTANCE.kind, MOST_HOSTS)
_UUIDS = list_of(UUID, MOST_HOSTS)


@refusing_malformed
def decode_aggregates(value: Any) -> list[Aggregate]:
    """Read ``aggregates`` of update_aggregates: a list, an AggregateList or a single one."""
    if isinstance(value, dict) and value.get(NAME_KEY) == AGGREGATE.name:
        return [AGGREGATE.read(value)]
    return list(_AGGREGATES.read(value))


@refusing_malformed
def decode_aggregate(value: Any) -> Aggregate:
    """Read ``aggregate`` of delete_aggregate."""
    return AGGREGATE.read(value)


@refusing_malformed
def decode_instances(value: Any) -> list[Instance]:
    """Read ``instance_info`` of update_instance_info."""
    return list(_INSTANCES.read(value))


@refusing_malformed
def decode_instance_uuids(value: Any) -> list[str]:
    """Read ``instance_uuids`` of sync_instance_info."""
    return list(_UUIDS.read(value))


@refusing_malformed
def decode_instance_uuid(value: Any) -> str:
    """Read ``instance_uuid`` of delete_instance_info."""
    return str(UUID.read(value))


@refusing_malformed
def decode_host_name(value: Any) -> str:
    """Read ``host_name`` of the casts about instances."""
    return str(NAME.read(value))
