# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Changed rows of hosts on their way to schedulers: what is sent and how it is read.

A push holds every column that a scheduler reads, or it is refused: half a row would look like a
whole one until the next reading. What a later release says besides is ignored. Agents of releases
without claims do not say what is claimed: nothing is read of their pushes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, make_dataclass
from datetime import datetime
from typing import Any, Protocol

from scheduler.objects.kinds import (
    COUNT,
    INT64,
    INTEGER,
    NAME,
    RATIO,
    TEXT,
    UUID,
    Kind,
    Malformed,
    between,
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


class Written(Protocol):
    """Rows that were written together; claims are all that count on the nodes."""

    @property
    def nodes(self) -> Sequence[Any]: ...

    @property
    def instances(self) -> Sequence[Any]: ...

    @property
    def claims(self) -> Sequence[Any]: ...


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
_BIG = between(-INT64 - 1, INT64)
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
            **dict.fromkeys(("disk_mb_used", "free_disk_mb"), or_none(_BIG)),
            "claims": INTEGER,
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
_OF_AN_INSTANCE = {
    "uuid": UUID,
    "host": NAME,
    "node": NAME,
    "project_id": or_none(NAME),
    **dict.fromkeys(("vcpus", "memory_mb", "root_gb", "ephemeral_gb"), INTEGER),
    **dict.fromkeys(("vm_state", "task_state", "os_type"), or_none(NAME)),
    "flavor_id": or_none(INTEGER),
    "flavor_name": or_none(NAME),
    "image_properties": or_none(_DOCUMENT),
}
_INSTANCES = list_of(
    _rows_of("PushedInstance", {**_OF_AN_INSTANCE, "deleted": COUNT, "updated_at": _MOMENT}),
    MOST_INSTANCES,
)
_CLAIMS = list_of(
    _rows_of("PushedClaim", {**_OF_AN_INSTANCE, "compute_node_id": COUNT}), MOST_INSTANCES
)


@dataclass(slots=True)
class Pushed:
    """Rows as they were written together, dead ones included, with the columns as attributes."""

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


def is_complete(arguments: Mapping[str, Any]) -> bool:
    """Return whether nodes_changed says all that is needed; older agents leave claims out."""
    return "claims" in arguments


@refusing_malformed
def decode(arguments: Mapping[str, Any]) -> Pushed:
    """Read the arguments of nodes_changed; raises InvalidInput, nothing else."""
    return Pushed(
        read_under("nodes", _NODES.read, arguments.get("nodes")),
        read_under("instances", _INSTANCES.read, arguments.get("instances")),
        read_under("claims", _CLAIMS.read, arguments.get("claims")),
    )
