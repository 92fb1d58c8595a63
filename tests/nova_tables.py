# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Databases like those of a Nova cloud, with the columns that matter to readers."""

import json
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from inventory.nova.cells import CELL0
from inventory.nova.database import NovaDatabase
from tests.databases import a_uuid

CELL = "00000000-0000-0000-0000-0000000000c1"
_STAMPS = {"created_at": sa.DateTime, "updated_at": sa.DateTime}
_DELETED = {"deleted_at": sa.DateTime, "deleted": sa.Integer}
_MAIN = {
    "services": {
        **dict.fromkeys(("host", "binary", "disabled_reason"), sa.String),
        **dict.fromkeys(("disabled", "forced_down"), sa.Boolean),
        "last_seen_up": sa.DateTime,
    },
    "compute_nodes": {
        **dict.fromkeys(("host", "hypervisor_hostname", "uuid", "hypervisor_type"), sa.String),
        **dict.fromkeys(("vcpus", "memory_mb", "local_gb", "hypervisor_version"), sa.Integer),
        **dict.fromkeys(("vcpus_used", "memory_mb_used", "local_gb_used"), sa.Integer),
        "disk_available_least": sa.Integer,
        **dict.fromkeys(("cpu_info", "host_ip", "supported_instances", "metrics"), sa.Text),
        **dict.fromkeys(("pci_stats", "stats", "numa_topology"), sa.Text),
        **{f"{each}_allocation_ratio": sa.Float for each in ("cpu", "ram", "disk")},
    },
    "instances": {
        **dict.fromkeys(("uuid", "host", "node", "vm_state", "task_state"), sa.String),
        **dict.fromkeys(("image_ref", "display_name", "project_id", "os_type"), sa.String),
        **dict.fromkeys(("vcpus", "memory_mb", "root_gb", "ephemeral_gb"), sa.Integer),
        "instance_type_id": sa.Integer,
    },
    "instance_extra": {
        "instance_uuid": sa.String,
        **dict.fromkeys(("flavor", "numa_topology", "migration_context"), sa.Text),
    },
    "instance_system_metadata": dict.fromkeys(("instance_uuid", "key", "value"), sa.String),
    "migrations": {
        **dict.fromkeys(("uuid", "instance_uuid", "status", "migration_type"), sa.String),
        **dict.fromkeys(("source_compute", "source_node"), sa.String),
        **dict.fromkeys(("dest_compute", "dest_node"), sa.String),
        **dict.fromkeys(("old_instance_type_id", "new_instance_type_id"), sa.Integer),
    },
}
_API = {
    "cell_mappings": {
        **dict.fromkeys(("uuid", "name", "database_connection"), sa.String),
        "disabled": sa.Boolean,
    },
    "host_mappings": {"host": sa.String, "cell_id": sa.Integer},
    "build_requests": {"instance_uuid": sa.String},
    "aggregates": dict.fromkeys(("uuid", "name"), sa.String),
    "aggregate_hosts": {"aggregate_id": sa.Integer, "host": sa.String},
    "aggregate_metadata": {"aggregate_id": sa.Integer, "key": sa.String, "value": sa.String},
    "flavors": {"name": sa.String, **dict.fromkeys(("vcpus", "memory_mb", "root_gb"), sa.Integer)},
    "flavor_extra_specs": {"flavor_id": sa.Integer, "key": sa.String, "value": sa.String},
}


def ago(seconds: float) -> datetime:
    """Return a time in the past, in UTC as Nova stamps it."""
    return (datetime.now(UTC) - timedelta(seconds=seconds)).replace(tzinfo=None, microsecond=0)


class NovaTables:
    """One such database, at a URL or in a file. It lacks columns as some release does."""

    def __init__(self, place: Path | str, api: bool = False, without: Collection[str] = ()) -> None:
        self.url = place if isinstance(place, str) else f"sqlite:///{place}"
        self.engine = sa.create_engine(self.url)
        self._metadata = sa.MetaData()
        for name, columns in (_API if api else _MAIN).items():
            kinds = {**_STAMPS, **({} if api else _DELETED), **columns}
            found = (
                sa.Column(each, sa.String(255) if kind is sa.String else kind)
                for each, kind in kinds.items()
                if each not in without
            )
            sa.Table(name, self._metadata, sa.Column("id", sa.Integer, primary_key=True), *found)
        self._metadata.create_all(self.engine)

    def open(self) -> NovaDatabase:
        return NovaDatabase("cell1", self.url)

    def add(self, table: str, **values: Any) -> None:
        """Insert a row that is older than any overlap, or as old as values say."""
        there = self._metadata.tables[table].c
        row = {"created_at": ago(1000), "updated_at": ago(1000), "deleted": 0, **values}
        known = {name: each for name, each in row.items() if name in there}
        with self.engine.begin() as connection:
            connection.execute(sa.insert(self._metadata.tables[table]).values(**known))

    def change(self, table: str, key: dict[str, Any], **values: Any) -> None:
        """Write columns of the rows that have these values, and stamp them as Nova does."""
        found = self._metadata.tables[table]
        where = [found.c[name] == each for name, each in key.items()]
        with self.engine.begin() as connection:
            stamped = {"updated_at": ago(0), **values}
            connection.execute(sa.update(found).where(*where).values(**stamped))

    def add_host(self, name: str = "h1", **node: Any) -> None:
        """Add an empty host of 16 CPUs, 64 GB, 512 MB of them reserved, and 1000 GB."""
        self.add("services", **a_service(name))
        self.add("compute_nodes", **a_node(name, **node))

    def boot(self, number: int, host: str = "h1", **values: Any) -> str:
        """Add an active instance of 2 vCPUs, 4 GB, and 20 GB and 1 GB swap; return its uuid."""
        uuid = a_uuid(f"instance {number}")
        self.add("instances", **an_instance(uuid, host, **values))
        flavor = json.dumps({"cur": a_flavor(), "old": None, "new": None})
        self.add("instance_extra", instance_uuid=uuid, flavor=flavor)
        return uuid

    def close(self) -> None:
        self.engine.dispose()


def a_service(host: str, **values: Any) -> dict[str, Any]:
    row = {"host": host, "binary": "nova-compute", "disabled": False, "forced_down": False}
    return {**row, "last_seen_up": ago(0), **values}


def a_node(name: str, **values: Any) -> dict[str, Any]:
    row = {
        **{"host": name, "hypervisor_hostname": name, "uuid": a_uuid(name), "host_ip": "192.0.2.7"},
        **{"vcpus": 16, "memory_mb": 65536, "local_gb": 1000},
        **{"vcpus_used": 0, "memory_mb_used": 512, "local_gb_used": 0},
        **{"hypervisor_type": "QEMU", "hypervisor_version": 8002000, "cpu_info": "{}"},
        "supported_instances": json.dumps([["x86_64", "kvm", "hvm"]]),
        "stats": json.dumps({"num_instances": "3", "failed_builds": "2"}),
    }
    return {**row, **values}


def an_instance(uuid: str, host: str, **values: Any) -> dict[str, Any]:
    row = {
        **{"uuid": uuid, "host": host, "node": host, "vm_state": "active", "image_ref": "i"},
        **{"vcpus": 2, "memory_mb": 4096, "root_gb": 20, "ephemeral_gb": 0},
        **{"display_name": "vm", "instance_type_id": 1},
    }
    return {**row, **values}


def a_flavor(number: int = 1, **values: Any) -> dict[str, Any]:
    """Return a flavor as Nova keeps it in a document."""
    size = {"vcpus": 2, "memory_mb": 4096, "root_gb": 20, "ephemeral_gb": 0, "swap": 1024}
    return {"nova_object.data": {"id": number, "name": f"m{number}", **size, **values}}


class NovaCloud:
    """The databases of a cloud: the API's, and those of cell1, cell2 and so on."""

    def __init__(
        self, directory: Path, *cells: Collection[str], server: Callable[[str], str] | None = None
    ) -> None:
        """Make one cell with these hosts each, and map all of them to their cells.

        They are files in the directory, unless a server returns the URL of a new database there.
        """
        place = server or (lambda name: f"sqlite:///{directory}/{name}")
        self.api = NovaTables(place("api"), api=True)
        self.cells = [NovaTables(place(f"cell{number + 1}")) for number in range(len(cells))]
        self._add_cell(0, "none://")
        for number, (tables, hosts) in enumerate(zip(self.cells, cells, strict=True), 1):
            self._add_cell(number, tables.url)
            for host in hosts:
                tables.add_host(host)
                self.api.add("host_mappings", host=host, cell_id=number)

    def _add_cell(self, number: int, url: str) -> None:
        uuid = f"{CELL[:-2]}c{number}" if number else CELL0
        # On MariaDB 0 would be the next free number.
        values = {"id": number or 100, "uuid": uuid, "name": f"cell{number}", "disabled": False}
        self.api.add("cell_mappings", **values, database_connection=url)

    def close(self) -> None:
        for each in (self.api, *self.cells):
            each.close()
