# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The tables. compute_nodes and services have Nova's columns; what we add is marked as ours."""

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.expression import FunctionElement

metadata = sa.MetaData()

_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")
# Which of two things that happened within a second was the first.
MOMENT = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
OPTIONS: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4"}


class utc_now(FunctionElement[datetime]):
    """The database's clock in UTC and whole seconds, so that no two machines' clocks are mixed."""

    type: sa.types.TypeEngine[Any] = sa.DateTime()
    inherit_cache = True
    mysql = "UTC_TIMESTAMP()"
    # In the very form in which SQLAlchemy stores a DateTime, since SQLite compares texts.
    sqlite = "strftime('%Y-%m-%d %H:%M:%S.000000', 'now')"


class utc_moment(utc_now):
    """The same clock with fractions of a second, for a column of MOMENT."""

    inherit_cache = True
    mysql = "UTC_TIMESTAMP(6)"
    sqlite = "strftime('%Y-%m-%d %H:%M:%f000', 'now')"


@compiles(utc_now, "mysql")
@compiles(utc_now, "mariadb")
def _utc_now_mysql(element, compiler, **kw):  # type: ignore[no-untyped-def]
    return element.mysql


@compiles(utc_now, "sqlite")
def _utc_now_sqlite(element, compiler, **kw):  # type: ignore[no-untyped-def]
    return element.sqlite


def _timestamps(updated: sa.types.TypeEngine[Any] | None = None) -> tuple[sa.Column[Any], ...]:
    return (
        sa.Column("created_at", sa.DateTime),
        sa.Column("updated_at", updated or sa.DateTime(), index=True),
        sa.Column("deleted_at", sa.DateTime),
        # 0 for a live row, else the row's id: several dead rows may carry the same names.
        sa.Column("deleted", sa.Integer, nullable=False, server_default="0"),
    )


def _name(name: str, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.String(255), nullable=nullable)


def _count(name: str, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Integer, nullable=nullable)


compute_nodes = sa.Table(
    "compute_nodes",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("uuid", sa.String(36), nullable=False, unique=True),
    _count("service_id", nullable=True),
    _name("host"),
    _name("hypervisor_hostname"),
    sa.Column("hypervisor_type", _TEXT, nullable=False),
    _count("hypervisor_version"),
    _count("vcpus"),
    _count("memory_mb"),
    _count("local_gb"),
    _count("vcpus_used"),
    _count("memory_mb_used"),
    _count("local_gb_used"),
    _count("free_ram_mb", nullable=True),
    _count("free_disk_gb", nullable=True),
    _count("current_workload", nullable=True),
    _count("running_vms", nullable=True),
    _count("disk_available_least", nullable=True),
    sa.Column("cpu_info", _TEXT, nullable=False),
    sa.Column("host_ip", sa.String(39)),
    sa.Column("supported_instances", _TEXT),
    sa.Column("metrics", _TEXT),
    sa.Column("pci_stats", _TEXT),
    sa.Column("extra_resources", _TEXT),
    sa.Column("stats", _TEXT),
    sa.Column("numa_topology", _TEXT),
    # Double precision, so that a ratio such as 1.1 is found again by its value.
    sa.Column("cpu_allocation_ratio", sa.Double),
    sa.Column("ram_allocation_ratio", sa.Double),
    sa.Column("disk_allocation_ratio", sa.Double),
    sa.Column("mapped", sa.Integer, server_default="0"),
    # Schedulers compare it with the moment at which they promised something of the host.
    *_timestamps(MOMENT),
    # Ours: grows by one with every write of the row.
    sa.Column("generation", sa.Integer, nullable=False, server_default="0"),
    # Ours, in MB, which local_gb_used and free_disk_gb are rounded from: what is taken, and what
    # is free both by that and by disk_available_least.
    sa.Column("disk_mb_used", sa.BigInteger),
    sa.Column("free_disk_mb", sa.BigInteger),
    # Ours: how many claims count in the usage besides the instances that were seen.
    sa.Column("claims", sa.Integer, nullable=False, server_default="0"),
    # Ours: how often what makes the host eligible has changed; see inventory.eligibility.
    sa.Column("eligibility_revision", sa.Integer, nullable=False, server_default="0"),
    sa.UniqueConstraint("host", "hypervisor_hostname", "deleted", name="uniq_compute_nodes_names"),
    **OPTIONS,
)

services = sa.Table(
    "services",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("uuid", sa.String(36), nullable=False, unique=True),
    _name("host"),
    sa.Column("binary", sa.String(255), nullable=False, quote=True),
    _name("topic"),
    sa.Column("report_count", sa.Integer, nullable=False, server_default="0"),
    sa.Column("last_seen_up", sa.DateTime),
    sa.Column("disabled", sa.Boolean, nullable=False, server_default=sa.false()),
    _name("disabled_reason", nullable=True),
    sa.Column("forced_down", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("version", sa.Integer, server_default="0"),
    # Ours: NULL, or why the host gets no new instances for now, "" where nobody said.
    _name("maintenance", nullable=True),
    # Ours: see inventory.eligibility.
    sa.Column("eligibility_revision", sa.Integer, nullable=False, server_default="0"),
    *_timestamps(),
    sa.UniqueConstraint("host", "topic", "deleted", name="uniq_services_topic"),
    sa.UniqueConstraint("host", "binary", "deleted", name="uniq_services_binary"),
    **OPTIONS,
)

instances = sa.Table(
    "instances",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("uuid", sa.String(36), nullable=False),
    _name("host"),
    _name("node"),
    _name("display_name", nullable=True),
    _name("project_id", nullable=True),
    _count("vcpus"),
    _count("memory_mb"),
    _count("root_gb"),
    _name("vm_state", nullable=True),
    # Nova's instance_type_id, not the flavorid that users see.
    _count("flavor_id", nullable=True),
    _name("flavor_name", nullable=True),
    # A JSON object whose values are texts.
    sa.Column("image_properties", _TEXT),
    # Ours: whoever builds instances keeps this row; an agent counts it and never writes it. Of the
    # others agents write one for each guest that they see.
    sa.Column("managed", sa.Boolean, nullable=False, server_default=sa.false()),
    _name("task_state", nullable=True),
    _name("os_type", nullable=True),
    # The disks are local ones: root_gb is 0 for an instance that boots from a volume.
    sa.Column("ephemeral_gb", sa.Integer, nullable=False, server_default="0"),
    # Ours: part of its flavor.
    sa.Column("swap_mb", sa.Integer, nullable=False, server_default="0"),
    *_timestamps(),
    # An instance that moves is on two hosts for a while.
    sa.UniqueConstraint("uuid", "host", "node", name="uniq_instances_place"),
    # What an audit asks for, on every host every minute.
    sa.Index("ix_instances_host_node", "host", "node"),
    **OPTIONS,
)

migrations = sa.Table(
    "migrations",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("uuid", sa.String(36), nullable=False, unique=True),
    sa.Column("instance_uuid", sa.String(36), nullable=False),
    _name("migration_type"),
    _name("status"),
    _name("source_compute", nullable=True),
    _name("source_node", nullable=True),
    _name("dest_compute", nullable=True),
    _name("dest_node", nullable=True),
    # Ours, where Nova has ids of flavors: how large the instance is before and after.
    *(
        sa.Column(f"{age}_{size}", sa.Integer, nullable=False, server_default="0")
        for age in ("old", "new")
        for size in ("vcpus", "memory_mb", "disk_mb")
    ),
    *_timestamps(),
    sa.Index("ix_migrations_source", "source_compute", "source_node"),
    sa.Index("ix_migrations_dest", "dest_compute", "dest_node"),
    sa.Index("ix_migrations_instance_uuid", "instance_uuid"),
    **OPTIONS,
)

aggregates = sa.Table(
    "aggregates",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("uuid", sa.String(36), nullable=False, unique=True),
    sa.Column("name", sa.String(255), nullable=False, unique=True),
    sa.Column("created_at", sa.DateTime),
    sa.Column("updated_at", sa.DateTime),
    **OPTIONS,
)

aggregate_hosts = sa.Table(
    "aggregate_hosts",
    metadata,
    sa.Column("aggregate_id", sa.ForeignKey("aggregates.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("host", sa.String(255), primary_key=True),
    **OPTIONS,
)

aggregate_metadata = sa.Table(
    "aggregate_metadata",
    metadata,
    sa.Column("aggregate_id", sa.ForeignKey("aggregates.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("key", sa.String(255), primary_key=True, quote=True),
    sa.Column("value", sa.String(255), nullable=False),
    **OPTIONS,
)

server_groups = sa.Table(
    "server_groups",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("uuid", sa.String(36), nullable=False, unique=True),
    _name("name"),
    _name("project_id", nullable=True),
    sa.Column("policy", sa.String(255), nullable=False),
    sa.Column("rules", _TEXT),
    sa.Column("created_at", sa.DateTime),
    sa.Column("updated_at", sa.DateTime),
    **OPTIONS,
)

server_group_members = sa.Table(
    "server_group_members",
    metadata,
    sa.Column("group_id", sa.ForeignKey("server_groups.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("instance_uuid", sa.String(36), primary_key=True),
    **OPTIONS,
)

# Ours: a claim holds what an instance takes of a node, from the answer of a scheduler until the
# instance is seen there.
allocations = sa.Table(
    "allocations",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("instance_uuid", sa.String(36), nullable=False),
    # 0 for the pending claim, of which an instance has one at most; see orders.Claim.slot.
    sa.Column("slot", sa.Integer, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("compute_node_id", sa.Integer, nullable=False, index=True),
    _name("host"),
    _name("node"),
    # The request that it answers, and with what.
    _name("request_id", nullable=True),
    sa.Column("digest", sa.String(64)),
    sa.Column("attempt", sa.Integer, nullable=False, server_default="0"),
    sa.Column("answer", _TEXT),
    sa.Column("group_uuid", sa.String(255), index=True),
    # The instance was on this node already, with another size.
    sa.Column("in_place", sa.Boolean, nullable=False, server_default=sa.false()),
    _count("vcpus"),
    _count("memory_mb"),
    sa.Column("disk_mb", sa.BigInteger, nullable=False),
    # The fitted cells of the instance, and the pools of devices that are taken.
    sa.Column("numa", _TEXT),
    sa.Column("pci", _TEXT),
    # As in instances.
    _name("project_id", nullable=True),
    _count("root_gb"),
    _count("ephemeral_gb"),
    _count("flavor_id", nullable=True),
    _name("flavor_name", nullable=True),
    sa.Column("image_properties", _TEXT),
    sa.Column("created_at", MOMENT),
    sa.Column("expires_at", MOMENT),
    sa.UniqueConstraint("instance_uuid", "slot", name="uniq_allocations_slot"),
    **OPTIONS,
)

# Ours: who claims for a member of a server group locks its row, so that one sees the other.
claimed_groups = sa.Table(
    "claimed_groups",
    metadata,
    sa.Column("uuid", sa.String(255), primary_key=True),
    _count("claims"),
    **OPTIONS,
)

# Ours: which orders were committed; see inventory.idempotency.
idempotency_keys = sa.Table(
    "idempotency_keys",
    metadata,
    sa.Column("key", sa.String(36), primary_key=True, quote=True),
    sa.Column("created_at", sa.DateTime, nullable=False, index=True),
    **OPTIONS,
)

# Ours: how often the rows of a table changed in a way that every reader must see at once.
# Readers compare one number instead of reading a table that hardly ever changes.
revisions = sa.Table(
    "revisions",
    metadata,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("revision", sa.Integer, nullable=False),
    **OPTIONS,
)
