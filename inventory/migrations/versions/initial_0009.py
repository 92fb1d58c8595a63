# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""All tables, for the first release; the steps up to this number were never in one."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from inventory.migrations.steps import MOMENT, NAME, TEXT, add_index, create_table

revision = "0009"
down_revision = None
# What databases say that were made before this step replaced the ones before it.
oldest_code = "0006"

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_BYTES = sa.LargeBinary().with_variant(mysql.MEDIUMBLOB(), "mysql", "mariadb")
_FILM = sa.String(length=64)
_UUID = sa.String(length=36)


def upgrade() -> None:
    create_table("compute_nodes", *_compute_nodes())
    create_table("services", *_services())
    create_table("instances", *_instances())
    create_table("migrations", *_migrations())
    _create_aggregates()
    _create_server_groups()
    create_table("allocations", *_allocations())
    create_table("claimed_groups", _key("uuid"), *_counts("claims"))
    _create_marks()
    _create_decisions()
    # Each by itself, since a sync may be killed between a table and its index.
    for table in ("compute_nodes", "services", "instances", "migrations"):
        add_index(table, "updated_at")
    add_index("instances", "host", "node")
    add_index("migrations", "source_compute", "source_node", name="source")
    add_index("migrations", "dest_compute", "dest_node", name="dest")
    add_index("migrations", "instance_uuid")
    add_index("allocations", "compute_node_id")
    add_index("allocations", "group_uuid")
    add_index("idempotency_keys", "created_at")
    add_index("decisions", "request_id")
    add_index("decisions", "decided_at")
    sizes = ("vcpus", "memory_mb", "disk_mb")
    add_index("decisions", "decided_at", *sizes, "instances", name="sizes")
    add_index("decision_instances", "instance_uuid")
    add_index("decision_inputs", "film", "written_at")


def _compute_nodes() -> list[Any]:
    return [
        *_identity(),
        *_counts("service_id", nullable=True),
        *_names("host", "hypervisor_hostname"),
        sa.Column("hypervisor_type", TEXT, nullable=False),
        *_counts("hypervisor_version", "vcpus", "memory_mb", "local_gb"),
        *_counts("vcpus_used", "memory_mb_used", "local_gb_used"),
        *_counts("free_ram_mb", "free_disk_gb", "current_workload", "running_vms", nullable=True),
        *_counts("disk_available_least", nullable=True),
        sa.Column("cpu_info", TEXT, nullable=False),
        sa.Column("host_ip", sa.String(length=39)),
        *_texts("supported_instances", "metrics", "pci_stats", "extra_resources", "stats"),
        *_texts("numa_topology"),
        *(sa.Column(f"{each}_allocation_ratio", sa.Double()) for each in ("cpu", "ram", "disk")),
        sa.Column("mapped", sa.Integer(), server_default="0"),
        *_times(MOMENT),
        *_deleted(),
        *_zeros("generation"),
        sa.Column("disk_mb_used", sa.BigInteger()),
        sa.Column("free_disk_mb", sa.BigInteger()),
        *_zeros("claims", "eligibility_revision"),
        sa.UniqueConstraint(
            "host", "hypervisor_hostname", "deleted", name="uniq_compute_nodes_names"
        ),
    ]


def _services() -> list[Any]:
    return [
        *_identity(),
        *_names("host", "binary", "topic"),
        *_zeros("report_count"),
        sa.Column("last_seen_up", sa.DateTime()),
        _flag("disabled"),
        *_names("disabled_reason", nullable=True),
        _flag("forced_down"),
        sa.Column("version", sa.Integer(), server_default="0"),
        *_names("maintenance", nullable=True),
        *_zeros("eligibility_revision"),
        sa.Column("cell_uuid", _UUID),
        *_times(),
        *_deleted(),
        sa.UniqueConstraint("host", "binary", "deleted", name="uniq_services_binary"),
        sa.UniqueConstraint("host", "topic", "deleted", name="uniq_services_topic"),
    ]


def _instances() -> list[Any]:
    return [
        _id(),
        sa.Column("uuid", _UUID, nullable=False),
        *_names("host", "node"),
        *_names("display_name", "project_id", nullable=True),
        *_counts("vcpus", "memory_mb", "root_gb"),
        *_names("vm_state", nullable=True),
        *_flavor_and_image(),
        _flag("managed"),
        *_names("task_state", "os_type", nullable=True),
        *_zeros("ephemeral_gb", "swap_mb"),
        *_times(),
        *_deleted(),
        sa.UniqueConstraint("uuid", "host", "node", name="uniq_instances_place"),
    ]


def _migrations() -> list[Any]:
    return [
        *_identity(),
        sa.Column("instance_uuid", _UUID, nullable=False),
        *_names("migration_type", "status"),
        *_names("source_compute", "source_node", "dest_compute", "dest_node", nullable=True),
        *_zeros("old_vcpus", "old_memory_mb", "old_disk_mb"),
        *_zeros("new_vcpus", "new_memory_mb", "new_disk_mb"),
        *_times(),
        *_deleted(),
    ]


def _create_aggregates() -> None:
    name = sa.Column("name", NAME, nullable=False, unique=True)
    create_table("aggregates", *_identity(), name, *_times())
    create_table("aggregate_hosts", _owner("aggregate_id", "aggregates"), _key("host"))
    pair = (_key("key"), *_names("value"))
    create_table("aggregate_metadata", _owner("aggregate_id", "aggregates"), *pair)


def _create_server_groups() -> None:
    create_table(
        "server_groups",
        *_identity(),
        *_names("name"),
        *_names("project_id", nullable=True),
        *_names("policy"),
        *_texts("rules"),
        *_times(),
    )
    member = sa.Column("instance_uuid", _UUID, primary_key=True)
    create_table("server_group_members", _owner("group_id", "server_groups"), member)


def _allocations() -> list[Any]:
    return [
        _id(),
        sa.Column("instance_uuid", _UUID, nullable=False),
        *_counts("slot"),
        sa.Column("state", sa.String(length=16), nullable=False),
        *_counts("compute_node_id"),
        *_names("host", "node"),
        *_names("request_id", nullable=True),
        sa.Column("digest", sa.String(length=64)),
        *_zeros("attempt"),
        *_texts("answer"),
        *_names("group_uuid", nullable=True),
        _flag("in_place"),
        *_counts("vcpus", "memory_mb"),
        sa.Column("disk_mb", sa.BigInteger(), nullable=False),
        *_texts("numa", "pci"),
        *_names("project_id", nullable=True),
        *_counts("root_gb", "ephemeral_gb"),
        *_flavor_and_image(),
        *(sa.Column(name, MOMENT) for name in ("created_at", "expires_at")),
        sa.UniqueConstraint("instance_uuid", "slot", name="uniq_allocations_slot"),
    ]


def _create_marks() -> None:
    """Create the tables by which processes know of each other's work."""
    create_table("revisions", _key("name", 64), *_counts("revision"))
    created = sa.Column("created_at", sa.DateTime(), nullable=False)
    create_table("idempotency_keys", _key("key", 36), created)
    expires = sa.Column("expires_at", MOMENT, nullable=False)
    create_table("leases", _key("name", 64), *_names("owner"), expires)


def _create_decisions() -> None:
    create_table("decisions", *_decisions(), sqlite_autoincrement=True)
    create_table(
        "decision_instances",
        sa.Column("decision_id", _NUMBER, primary_key=True, autoincrement=False),
        sa.Column("instance_uuid", _UUID, primary_key=True),
    )
    create_table(
        "decision_inputs",
        sa.Column("film", _FILM, primary_key=True),
        sa.Column("first", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("piece", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("written_at", MOMENT, nullable=False),
        sa.Column("data", _BYTES, nullable=False),
    )
    create_table(
        "shadow_reports",
        _id(),
        *_names("scheduler", "config"),
        sa.Column("began_at", MOMENT, nullable=False),
        sa.Column("written_at", MOMENT, nullable=False),
        sa.Column("document", TEXT, nullable=False),
    )


def _decisions() -> list[Any]:
    return [
        sa.Column("id", _NUMBER, primary_key=True),
        *_names("request_id", "project_id", nullable=True),
        sa.Column("decided_at", MOMENT, nullable=False),
        *_names("scheduler"),
        sa.Column("outcome", sa.String(length=16), nullable=False),
        *_counts("instances"),
        *_names("hosts", nullable=True),
        sa.Column("milliseconds", sa.Double(), nullable=False),
        *_counts("conflicts"),
        sa.Column("film", _FILM, nullable=False),
        *_counts("frame"),
        sa.Column("document", _BYTES, nullable=False),
        *(sa.Column(name, sa.BigInteger()) for name in ("vcpus", "memory_mb", "disk_mb")),
        sa.UniqueConstraint("film", "frame", name="uniq_decisions_frame"),
    ]


def _flavor_and_image() -> list[sa.Column[Any]]:
    return [
        *_counts("flavor_id", nullable=True),
        *_names("flavor_name", nullable=True),
        *_texts("image_properties"),
    ]


def _id() -> sa.Column[Any]:
    return sa.Column("id", sa.Integer(), primary_key=True)


def _identity() -> list[sa.Column[Any]]:
    return [_id(), sa.Column("uuid", _UUID, nullable=False, unique=True)]


def _key(name: str, length: int = 255) -> sa.Column[Any]:
    return sa.Column(name, sa.String(length), primary_key=True)


def _owner(name: str, table: str) -> sa.Column[Any]:
    """Return a part of the key that names a row of another table, and goes with that row."""
    key = sa.ForeignKey(f"{table}.id", ondelete="CASCADE")
    return sa.Column(name, sa.Integer(), key, primary_key=True)


def _times(updated: sa.types.TypeEngine[Any] | None = None) -> list[sa.Column[Any]]:
    created = sa.Column("created_at", sa.DateTime())
    return [created, sa.Column("updated_at", updated or sa.DateTime())]


def _deleted() -> list[sa.Column[Any]]:
    return [sa.Column("deleted_at", sa.DateTime()), *_zeros("deleted")]


def _names(*names: str, nullable: bool = False) -> list[sa.Column[Any]]:
    return [sa.Column(name, NAME, nullable=nullable) for name in names]


def _texts(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, TEXT) for name in names]


def _counts(*names: str, nullable: bool = False) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Integer(), nullable=nullable) for name in names]


def _zeros(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Integer(), nullable=False, server_default="0") for name in names]


def _flag(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Boolean(), nullable=False, server_default=sa.false())
