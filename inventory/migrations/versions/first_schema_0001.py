# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The first schema: compute nodes, services, instances, aggregates and server groups."""

from typing import Any

import sqlalchemy as sa

from inventory.migrations.steps import NAME, TEXT, add_index, create_table

revision = "0001"
down_revision = None
oldest_code = "0001"


def upgrade() -> None:
    create_table("aggregates", *_identity(), _name("name", unique=True), *_times())
    create_table("compute_nodes", *_compute_nodes())
    add_index("compute_nodes", "updated_at")
    create_table("instances", *_instances())
    add_index("instances", "updated_at")
    add_index("instances", "host", "node")
    create_table(
        "revisions",
        sa.Column("name", sa.String(length=64), primary_key=True),
        sa.Column("revision", sa.Integer(), nullable=False),
    )
    create_table(
        "server_groups",
        *_identity(),
        _name("name"),
        _name("project_id", nullable=True),
        _name("policy"),
        *_texts("rules"),
        *_times(),
    )
    create_table("services", *_services())
    add_index("services", "updated_at")
    _create_of("aggregates", "aggregate_hosts", "aggregate_id", _key("host"))
    _create_of("aggregates", "aggregate_metadata", "aggregate_id", _key("key"), _name("value"))
    uuid = _key("instance_uuid", 36)
    _create_of("server_groups", "server_group_members", "group_id", uuid)


def _create_of(owner: str, name: str, column: str, *columns: sa.Column[Any]) -> None:
    """Create a table whose rows are deleted with those of another."""
    key = sa.ForeignKey(f"{owner}.id", ondelete="CASCADE")
    owner_id = sa.Column(column, sa.Integer(), key, primary_key=True)
    create_table(name, owner_id, *columns)


def _compute_nodes() -> list[Any]:
    return [
        *_identity(),
        sa.Column("service_id", sa.Integer(), nullable=True),
        _name("host"),
        _name("hypervisor_hostname"),
        sa.Column("hypervisor_type", TEXT, nullable=False),
        *_counts("hypervisor_version", "vcpus", "memory_mb", "local_gb"),
        *_counts("vcpus_used", "memory_mb_used", "local_gb_used"),
        *_counts("free_ram_mb", "free_disk_gb", "current_workload", "running_vms", nullable=True),
        *_counts("disk_available_least", nullable=True),
        sa.Column("cpu_info", TEXT, nullable=False),
        sa.Column("host_ip", sa.String(length=39), nullable=True),
        *_texts("supported_instances", "metrics", "pci_stats", "extra_resources", "stats"),
        *_texts("numa_topology"),
        *(sa.Column(f"{each}_allocation_ratio", sa.Double()) for each in ("cpu", "ram", "disk")),
        sa.Column("mapped", sa.Integer(), server_default="0", nullable=True),
        *_times(),
        *_deleted(),
        sa.Column("generation", sa.Integer(), server_default="0", nullable=False),
        sa.UniqueConstraint(
            "host", "hypervisor_hostname", "deleted", name="uniq_compute_nodes_names"
        ),
    ]


def _instances() -> list[Any]:
    return [
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        _name("host"),
        _name("node"),
        _name("display_name", nullable=True),
        _name("project_id", nullable=True),
        *_counts("vcpus", "memory_mb", "root_gb"),
        _name("vm_state", nullable=True),
        *_times(),
        *_deleted(),
        sa.UniqueConstraint("uuid", "host", "node", name="uniq_instances_place"),
    ]


def _services() -> list[Any]:
    return [
        *_identity(),
        *(_name("host"), _name("binary"), _name("topic")),
        sa.Column("report_count", sa.Integer(), server_default="0", nullable=False),
        sa.Column("last_seen_up", sa.DateTime(), nullable=True),
        sa.Column("disabled", sa.Boolean(), server_default=sa.false(), nullable=False),
        _name("disabled_reason", nullable=True),
        sa.Column("forced_down", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("version", sa.Integer(), server_default="0", nullable=True),
        *_times(),
        *_deleted(),
        sa.UniqueConstraint("host", "binary", "deleted", name="uniq_services_binary"),
        sa.UniqueConstraint("host", "topic", "deleted", name="uniq_services_topic"),
    ]


def _identity() -> list[Any]:
    return [
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("uuid", sa.String(length=36), nullable=False, unique=True),
    ]


def _times() -> list[Any]:
    return [sa.Column(name, sa.DateTime()) for name in ("created_at", "updated_at")]


def _deleted() -> list[Any]:
    return [
        sa.Column("deleted_at", sa.DateTime(), nullable=True),
        sa.Column("deleted", sa.Integer(), server_default="0", nullable=False),
    ]


def _key(name: str, length: int = 255) -> sa.Column[Any]:
    return sa.Column(name, sa.String(length), primary_key=True)


def _texts(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, TEXT, nullable=True) for name in names]


def _name(name: str, nullable: bool = False, unique: bool | None = None) -> sa.Column[Any]:
    return sa.Column(name, NAME, nullable=nullable, unique=unique)


def _counts(*names: str, nullable: bool = False) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Integer(), nullable=nullable) for name in names]
