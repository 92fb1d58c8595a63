# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Changed rows of hosts on their way from agents to schedulers: what is sent and how it is read.

A push holds every column that a scheduler reads, or it is refused: half a row would look like a
whole one until the next reading. What a later release says besides is ignored.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, make_dataclass
from datetime import datetime
from typing import Any

from scheduler.objects.kinds import (
    COUNT,
    INTEGER,
    NAME,
    RATIO,
    TEXT,
    UUID,
    Kind,
    Malformed,
    list_of,
    mapping_of,
    or_none,
    read_under,
    shown,
    text_of,
)
from scheduler.rpc.codec.refusal import refusing_malformed

# Not the topic of requests: a scheduler of Nova's beside ours listens there as well, and would log
# a traceback for every push.
TOPIC = "berthmaster-scheduler"
NAMESPACE = "berthmaster"
VERSION = "1.0"
MOST_NODES = 100
MOST_INSTANCES = 10_000


def _read_moment(value: Any) -> datetime:
    """Read a moment of the database's clock, which is UTC and does not say so."""
    try:
        moment: datetime | None = datetime.fromisoformat(NAME.read(value))
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is not None:
        raise Malformed(f"{shown(value)} is not a moment without zone")
    return moment


def _rows_of(name: str, columns: Mapping[str, Kind]) -> Kind:
    """Return the kind of rows with these columns; what is read has them as attributes."""
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

    return Kind(read, write)


_MOMENT = or_none(Kind(_read_moment, datetime.isoformat))
_DOCUMENT = text_of(1_000_000)
_NODES = list_of(
    _rows_of(
        "PushedNode",
        {
            "id": COUNT,
            "generation": COUNT,
            "deleted": COUNT,
            "created_at": _MOMENT,
            "updated_at": _MOMENT,
            "uuid": UUID,
            "host": NAME,
            "hypervisor_hostname": NAME,
            "host_ip": or_none(NAME),
            "hypervisor_type": TEXT,
            "hypervisor_version": INTEGER,
            **dict.fromkeys(
                ("vcpus", "vcpus_used", "memory_mb", "local_gb", "local_gb_used"), INTEGER
            ),
            **dict.fromkeys(
                ("free_ram_mb", "free_disk_gb", "disk_available_least"), or_none(INTEGER)
            ),
            **dict.fromkeys(
                ("cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio"),
                or_none(RATIO),
            ),
            "cpu_info": _DOCUMENT,
            **dict.fromkeys(
                ("supported_instances", "metrics", "stats", "numa_topology", "pci_stats"),
                or_none(_DOCUMENT),
            ),
        },
    ),
    MOST_NODES,
)
_INSTANCES = list_of(
    _rows_of(
        "PushedInstance",
        {
            "uuid": UUID,
            "host": NAME,
            "node": NAME,
            "deleted": COUNT,
            "updated_at": _MOMENT,
            "project_id": or_none(NAME),
            **dict.fromkeys(("vcpus", "memory_mb", "root_gb", "ephemeral_gb"), INTEGER),
            **dict.fromkeys(("vm_state", "task_state", "os_type"), or_none(NAME)),
            "flavor_id": or_none(INTEGER),
            "flavor_name": or_none(NAME),
            "image_properties": or_none(_DOCUMENT),
        },
    ),
    MOST_INSTANCES,
)


@dataclass(slots=True)
class Pushed:
    """Rows as they were written together, dead ones included, with the columns as attributes."""

    nodes: list[Any]
    instances: list[Any]


def encode(nodes: Sequence[Any], instances: Sequence[Any]) -> dict[str, Any]:
    """Return the arguments of nodes_changed for rows of compute_nodes and of instances."""
    return {"nodes": _NODES.write(nodes), "instances": _INSTANCES.write(instances)}


@refusing_malformed
def decode(arguments: Mapping[str, Any]) -> Pushed:
    """Read the arguments of nodes_changed; raises InvalidInput, nothing else."""
    return Pushed(
        read_under("nodes", _NODES.read, arguments.get("nodes")),
        read_under("instances", _INSTANCES.read, arguments.get("instances")),
    )
