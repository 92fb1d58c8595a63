# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Databases for tests, and the rows that an agent would write into them."""

import json
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

import sqlalchemy as sa
from oslo_config import cfg

from conf import opts
from inventory import compute_nodes, migrations, services, tables
from inventory.engine import Database, open_database
from inventory.heartbeat import VERSION

Row = dict[str, Any]


def a_conf(**database: Any) -> cfg.ConfigOpts:
    """Return a configuration of its own with these [database] options."""
    conf = cfg.ConfigOpts()
    opts.register(conf)
    conf([], project="berthmaster", default_config_files=[], default_config_dirs=[])
    # A test that stops its server wants to hear of it soon.
    for name, value in ({"max_retries": 1, "retry_interval": 0} | database).items():
        conf.set_override(name, value, group="database")
    return conf


def open_at(url: str) -> Database:
    """Return the database of a URL."""
    return open_database(a_conf(connection=url))


def empty(database: Database) -> None:
    """Delete all rows."""

    def work(connection: sa.Connection) -> None:
        for table in reversed(tables.metadata.sorted_tables):
            connection.execute(sa.delete(table))

    database.write(work)


def a_uuid(name: str) -> str:
    """Return a uuid that is always the same for a name."""
    return str(uuid5(NAMESPACE_DNS, name))


def a_node(host: str = "h1", node: str | None = None, **changes: Any) -> Row:
    """Return what an agent writes for an empty node of 16 CPUs, 64 GB and 1000 GB."""
    node = host if node is None else node
    ordinary = {
        "host": host,
        "hypervisor_hostname": node,
        "uuid": a_uuid(f"{host} {node}"),
        "hypervisor_type": "QEMU",
        "hypervisor_version": 8002000,
        "host_ip": "192.0.2.1",
        "vcpus": 16,
        "vcpus_used": 0,
        "memory_mb": 65536,
        "memory_mb_used": 512,
        "free_ram_mb": 65024,
        "local_gb": 1000,
        "local_gb_used": 0,
        "free_disk_gb": 1000,
        "disk_available_least": None,
        "cpu_info": "{}",
        "supported_instances": json.dumps([["x86_64", "kvm", "hvm"]]),
        "stats": json.dumps({"num_instances": "0", "io_workload": "0"}),
        "cpu_allocation_ratio": None,
        "ram_allocation_ratio": None,
        "disk_allocation_ratio": None,
        "initial_cpu_allocation_ratio": 4.0,
        "initial_ram_allocation_ratio": 1.5,
        "initial_disk_allocation_ratio": 1.0,
    }
    return ordinary | changes


def save(database: Database, *nodes: Row) -> None:
    """Write nodes as their agents do."""
    database.write(lambda connection: compute_nodes.save(connection, nodes))


def serve(database: Database, *hosts: str) -> list[int]:
    """Register the compute services of hosts and let their hearts beat once; return their ids."""

    def work(connection: sa.Connection) -> list[int]:
        ids = services.register(connection, hosts, services.COMPUTE, VERSION)
        services.beat(connection, ids)
        return ids

    return database.write(work)


def an_instance(uuid: str = "u1", **changes: Any) -> Row:
    """Return a guest as an agent reports it."""
    ordinary = {
        "uuid": uuid,
        "display_name": f"name of {uuid}",
        "project_id": "p1",
        "vcpus": 1,
        "memory_mb": 1024,
        "root_gb": 10,
        "vm_state": "active",
        "flavor_id": None,
        "flavor_name": None,
        "image_properties": None,
    }
    return ordinary | changes


def migrated(directory: Path) -> Database:
    """Return a new SQLite database with all tables in a directory."""
    database = open_at(f"sqlite:///{directory}/inventory.sqlite")
    migrations.sync(database)
    return database


def execute(database: Database, statement: str, **values: Any) -> None:
    """Run one statement of SQL in a transaction of its own."""
    database.write(lambda connection: connection.execute(sa.text(statement), values))
