# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Databases for tests, and the rows that an agent would write into them."""

import json
import sqlite3
from contextlib import closing
from datetime import datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

import sqlalchemy as sa
from oslo_config import cfg

from conf import opts
from inventory import compute_nodes, daemon_facts, migrations, services, tables
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
    row = ordinary | changes
    free = [row[name] for name in ("free_disk_gb", "disk_available_least") if row[name] is not None]
    in_mb = {
        "disk_mb_used": 1024 * row["local_gb_used"],
        "free_disk_mb": 1024 * min(free) if free else None,
    }
    return in_mb | row


def save(database: Database, *nodes: Row) -> None:
    """Write nodes as their agents do."""
    database.write(lambda connection: compute_nodes.save(connection, nodes))


def serve(database: Database, *hosts: str) -> list[int]:
    """Register the compute services of hosts and let their hearts beat once; return their ids."""

    def work(connection: sa.Connection) -> list[int]:
        ids = services.register(connection, hosts, services.COMPUTE, VERSION)
        facts = daemon_facts.release() | daemon_facts.history(connection, 0.0, None)
        services.beat(connection, ids, facts)
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
    make_tables(database)
    return database


def make_tables(database: Database) -> None:
    """Give a database all tables; on SQLite a copy takes a fifth of the time of the migrations."""
    if database.engine.dialect.name != "sqlite" or database.read(migrations.revision) is not None:
        migrations.sync(database)
        return
    with closing(sqlite3.connect(":memory:")) as empty, database.engine.connect() as connection:
        empty.deserialize(empty_tables())
        empty.backup(connection.connection.dbapi_connection)


@cache
def empty_tables() -> bytes:
    """Return a database with all tables and no rows, as its file would be."""
    with TemporaryDirectory() as directory:
        path = f"{directory}/empty.sqlite"
        with closing(open_at(f"sqlite:///{path}")) as made:
            migrations.sync(made)
        with closing(sqlite3.connect(path)) as connection:
            # What is in memory alone has no log beside it.
            connection.execute("PRAGMA journal_mode = DELETE")
            return connection.serialize()


def execute(database: Database, statement: str, **values: Any) -> None:
    """Run one statement of SQL in a transaction of its own; times are those of the database."""
    # What sqlite3 makes of a time by itself is deprecated from Python 3.12 on.
    for name, value in values.items():
        values[name] = str(value) if isinstance(value, datetime) else value
    database.write(lambda connection: connection.execute(sa.text(statement), values))
