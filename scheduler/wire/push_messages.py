# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Encode and decode changed rows of hosts that are pushed to schedulers.

A push with a missing column is refused: the row would look complete until the next refresh. Columns
of a later release are ignored. Pushes of agents that know no claims are incomplete.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, make_dataclass
from datetime import datetime
from typing import Any, Protocol

from inventory.objects.field_types import (
    COUNT,
    INT64,
    INTEGER,
    NAME,
    RATIO,
    TEXT,
    UUID,
    FieldType,
    Malformed,
    between,
    list_of,
    mapping_of,
    or_none,
    read_under,
    shown,
    text_of,
    typed,
)
from scheduler.wire.arguments import refusing_malformed

# Not the topic of requests: a scheduler of Nova's on it would log a traceback for every push.
TOPIC = "berthmaster-scheduler"
NAMESPACE = "berthmaster"
VERSION = "1.0"
MOST_NODES = 100
MOST_INSTANCES = 10_000


class Written(Protocol):
    """Rows that were written together, and all claims that count on their nodes."""

    @property
    def nodes(self) -> Sequence[Any]: ...

    @property
    def instances(self) -> Sequence[Any]: ...

    @property
    def claims(self) -> Sequence[Any]: ...


def _read_time(value: Any) -> datetime:
    """Read a time of the database's clock, which is UTC without saying so."""
    try:
        time = datetime.fromisoformat(NAME.read(value))
        if time.tzinfo is None:
            return time
    except ValueError:
        pass
    raise Malformed(f"{shown(value)} is not a time without zone")


def _rows_of(name: str, columns: Mapping[str, FieldType]) -> FieldType:
    """Return the kind of rows with these columns, which are attributes of a row read."""
    made = make_dataclass(name, columns, slots=True)

    def read(value: Any) -> Any:
        given = mapping_of(value)
        found = {}
        for column, kind in columns.items():
            if column not in given:
                raise Malformed("is missing").under(column)
            found[column] = read_under(column, kind.read, given[column])
        return made(**found)

    def write(row: Any) -> dict[str, Any]:
        return {column: kind.write(getattr(row, column)) for column, kind in columns.items()}

    return FieldType(read, write)


_TIME = or_none(FieldType(_read_time, datetime.isoformat))
DOCUMENT = text_of(1_000_000)
_NODES = list_of(
    _rows_of(
        "PushedNode",
        {
            **typed(COUNT, "id generation deleted"),
            **typed(_TIME, "created_at updated_at"),
            "uuid": UUID,
            **typed(NAME, "host hypervisor_hostname"),
            "host_ip": or_none(NAME),
            "hypervisor_type": TEXT,
            **typed(INTEGER, "hypervisor_version vcpus vcpus_used claims"),
            **typed(INTEGER, "memory_mb local_gb local_gb_used"),
            **typed(or_none(INTEGER), "free_ram_mb free_disk_gb disk_available_least"),
            **typed(or_none(between(-INT64 - 1, INT64)), "disk_mb_used free_disk_mb"),
            **typed(
                or_none(RATIO), "cpu_allocation_ratio ram_allocation_ratio disk_allocation_ratio"
            ),
            "cpu_info": DOCUMENT,
            **typed(or_none(DOCUMENT), "supported_instances metrics stats numa_topology pci_stats"),
        },
    ),
    MOST_NODES,
)
_OF_AN_INSTANCE = {
    "uuid": UUID,
    **typed(NAME, "host node"),
    **typed(INTEGER, "vcpus memory_mb root_gb ephemeral_gb"),
    **typed(or_none(NAME), "project_id vm_state task_state os_type flavor_name"),
    "flavor_id": or_none(INTEGER),
    "image_properties": or_none(DOCUMENT),
}
# Schedulers of earlier releases refuse an instance without updated_at.
_INSTANCES = list_of(
    _rows_of("PushedInstance", {**_OF_AN_INSTANCE, "deleted": COUNT, "updated_at": _TIME}),
    MOST_INSTANCES,
)
_CLAIMS = list_of(
    _rows_of("PushedClaim", {**_OF_AN_INSTANCE, "compute_node_id": COUNT}), MOST_INSTANCES
)


@dataclass(slots=True)
class Pushed:
    """Rows that were written together, deleted ones included, with columns as attributes."""

    nodes: list[Any]
    instances: list[Any]
    claims: list[Any]


def encode(written: Written) -> dict[str, Any]:
    """Return the arguments of nodes_changed for rows of compute_nodes, instances and claims."""
    return {
        "nodes": _NODES.write(written.nodes),
        "instances": _INSTANCES.write(written.instances),
        "claims": _CLAIMS.write(written.claims),
    }


@refusing_malformed
def decode(arguments: Mapping[str, Any]) -> Pushed:
    """Decode the arguments of nodes_changed; raise InvalidInput, nothing else."""
    return Pushed(
        read_under("nodes", _NODES.read, arguments.get("nodes")),
        read_under("instances", _INSTANCES.read, arguments.get("instances")),
        read_under("claims", _CLAIMS.read, arguments.get("claims")),
    )
