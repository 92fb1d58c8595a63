# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The tables. compute_nodes and services have Nova's columns; what we add is marked as ours."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

metadata = sa.MetaData()

_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")
# Orders events within a second.
_MOMENT = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
# A busy cloud makes more decisions in a year than an ordinary integer has numbers.
_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_BYTES = sa.LargeBinary().with_variant(mysql.MEDIUMBLOB(), "mysql", "mariadb")
_OPTIONS: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4"}


def _identity() -> tuple[sa.Column[Any], ...]:
    return (
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("uuid", sa.String(36), nullable=False, unique=True),
    )


def _timestamps(updated: sa.types.TypeEngine[Any] | None = None) -> tuple[sa.Column[Any], ...]:
    return (
        sa.Column("created_at", sa.DateTime),
        sa.Column("updated_at", updated or sa.DateTime(), index=True),
        sa.Column("deleted_at", sa.DateTime),
        # 0 for a live row, else the row's id: several dead rows may carry the same names.
        _zero("deleted"),
    )


def _names(*names: str, nullable: bool = False) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.String(255), nullable=nullable) for name in names]


def _counts(*names: str, nullable: bool = False) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Integer, nullable=nullable) for name in names]


def _texts(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, _TEXT) for name in names]


def _zero(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Integer, nullable=False, server_default="0")


def _table(name: str, *items: Any, **options: Any) -> sa.Table:
    return sa.Table(name, metadata, *items, **options, **_OPTIONS)


compute_nodes = _table(
    "compute_nodes",
    *_identity(),
    *_counts("service_id", nullable=True),
    *_names("host", "hypervisor_hostname"),
    sa.Column("hypervisor_type", _TEXT, nullable=False),
    *_counts("hypervisor_version", "vcpus", "memory_mb", "local_gb"),
    *_counts("vcpus_used", "memory_mb_used", "local_gb_used"),
    *_counts("free_ram_mb", "free_disk_gb", "current_workload", "running_vms", nullable=True),
    *_counts("disk_available_least", nullable=True),
    sa.Column("cpu_info", _TEXT, nullable=False),
    sa.Column("host_ip", sa.String(39)),
    *_texts("supported_instances", "metrics", "pci_stats", "extra_resources", "stats"),
    *_texts("numa_topology"),
    # Double precision, so that a ratio such as 1.1 is found again by its value.
    *(sa.Column(f"{each}_allocation_ratio", sa.Double) for each in ("cpu", "ram", "disk")),
    sa.Column("mapped", sa.Integer, server_default="0"),
    # Schedulers compare updated_at with the time at which they chose the host for an instance.
    *_timestamps(_MOMENT),
    # Ours: grows by one with every write of the row.
    _zero("generation"),
    # Ours, in MB, of which local_gb_used and free_disk_gb are the rounded values; what is free is
    # bounded by disk_available_least, too.
    *(sa.Column(name, sa.BigInteger) for name in ("disk_mb_used", "free_disk_mb")),
    # Ours: how many claims are part of the usage, besides the instances that were seen.
    _zero("claims"),
    # Ours: how often the aggregates and services of the host have changed; see inventory.revisions.
    _zero("eligibility_revision"),
    sa.UniqueConstraint("host", "hypervisor_hostname", "deleted", name="uniq_compute_nodes_names"),
)

services = _table(
    "services",
    *_identity(),
    *_names("host", "topic"),
    sa.Column("binary", sa.String(255), nullable=False, quote=True),
    _zero("report_count"),
    sa.Column("last_seen_up", sa.DateTime),
    sa.Column("disabled", sa.Boolean, nullable=False, server_default=sa.false()),
    *_names("disabled_reason", nullable=True),
    sa.Column("forced_down", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("version", sa.Integer, server_default="0"),
    # Ours: NULL, or the reason for which the host is in maintenance, which may be empty.
    *_names("maintenance", nullable=True),
    # Ours: see inventory.revisions.
    _zero("eligibility_revision"),
    # Ours: the cell of the host in a Nova cloud, NULL for what [scheduler] cell_uuid says.
    sa.Column("cell_uuid", sa.String(36)),
    # Ours: what the daemon reports about itself, and when it last did; see daemon_facts.
    *_names("daemon_release", "last_error", nullable=True),
    *(sa.Column(name, sa.DateTime) for name in ("started_at", "reported_at", "last_error_at")),
    *_timestamps(),
    sa.UniqueConstraint("host", "topic", "deleted", name="uniq_services_topic"),
    sa.UniqueConstraint("host", "binary", "deleted", name="uniq_services_binary"),
)

instances = _table(
    "instances",
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("uuid", sa.String(36), nullable=False),
    *_names("host", "node"),
    *_names("display_name", "project_id", "vm_state", "flavor_name", nullable=True),
    *_counts("vcpus", "memory_mb", "root_gb"),
    # Nova's instance_type_id, not the flavorid that users see.
    *_counts("flavor_id", nullable=True),
    # A JSON object whose values are texts.
    sa.Column("image_properties", _TEXT),
    # Ours: rows that the builder of instances writes; agents count them, and write those of guests.
    sa.Column("managed", sa.Boolean, nullable=False, server_default=sa.false()),
    *_names("task_state", "os_type", nullable=True),
    # The disks are local ones: root_gb is 0 for an instance that boots from a volume.
    _zero("ephemeral_gb"),
    # Ours: part of its flavor.
    _zero("swap_mb"),
    *_timestamps(),
    # An instance that moves is on two hosts for a while.
    sa.UniqueConstraint("uuid", "host", "node", name="uniq_instances_place"),
    # What an audit asks for, on every host every minute.
    sa.Index("ix_instances_host_node", "host", "node"),
)

migrations = _table(
    "migrations",
    *_identity(),
    sa.Column("instance_uuid", sa.String(36), nullable=False),
    *_names("migration_type", "status"),
    *_names("source_compute", "source_node", "dest_compute", "dest_node", nullable=True),
    # Ours, where Nova has ids of flavors: the size of the instance before and after.
    *map(_zero, ("old_vcpus", "old_memory_mb", "old_disk_mb")),
    *map(_zero, ("new_vcpus", "new_memory_mb", "new_disk_mb")),
    *_timestamps(),
    *(sa.Index(f"ix_migrations_{x}", f"{x}_compute", f"{x}_node") for x in ("source", "dest")),
    sa.Index("ix_migrations_instance_uuid", "instance_uuid"),
)

aggregates = _table(
    "aggregates",
    *_identity(),
    sa.Column("name", sa.String(255), nullable=False, unique=True),
    *(sa.Column(name, sa.DateTime) for name in ("created_at", "updated_at")),
)

aggregate_hosts = _table(
    "aggregate_hosts",
    sa.Column("aggregate_id", sa.ForeignKey("aggregates.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("host", sa.String(255), primary_key=True),
)

aggregate_metadata = _table(
    "aggregate_metadata",
    sa.Column("aggregate_id", sa.ForeignKey("aggregates.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("key", sa.String(255), primary_key=True, quote=True),
    sa.Column("value", sa.String(255), nullable=False),
)

server_groups = _table(
    "server_groups",
    *_identity(),
    *_names("name", "policy"),
    *_names("project_id", nullable=True),
    *_texts("rules"),
    *(sa.Column(name, sa.DateTime) for name in ("created_at", "updated_at")),
)

server_group_members = _table(
    "server_group_members",
    sa.Column("group_id", sa.ForeignKey("server_groups.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("instance_uuid", sa.String(36), primary_key=True),
)

# Ours: a claim holds what an instance needs of a node, from the answer of a scheduler until the
# instance is seen there.
allocations = _table(
    "allocations",
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("instance_uuid", sa.String(36), nullable=False),
    # 0 for the pending claim, of which an instance has one at most; see Claim.slot.
    sa.Column("slot", sa.Integer, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("compute_node_id", sa.Integer, nullable=False, index=True),
    *_names("host", "node"),
    # The request, and the answer to it.
    *_names("request_id", nullable=True),
    sa.Column("digest", sa.String(64)),
    _zero("attempt"),
    sa.Column("answer", _TEXT),
    sa.Column("group_uuid", sa.String(255), index=True),
    # The instance was on this node already, with another size.
    sa.Column("in_place", sa.Boolean, nullable=False, server_default=sa.false()),
    *_counts("vcpus", "memory_mb"),
    sa.Column("disk_mb", sa.BigInteger, nullable=False),
    # The fitted cells of the instance, and the pools of its devices.
    *_texts("numa", "pci"),
    # As in instances.
    *_names("project_id", "flavor_name", nullable=True),
    *_counts("root_gb", "ephemeral_gb"),
    *_counts("flavor_id", nullable=True),
    *_texts("image_properties"),
    *(sa.Column(name, _MOMENT) for name in ("created_at", "expires_at")),
    # Of a reserved place: its reservation, that which has it next, and the instance that has taken
    # it. Of a claim: the place that it has taken.
    *(sa.Column(f"{it}reservation_uuid", sa.String(36), index=True) for it in ("", "next_")),
    *(sa.Column(name, sa.String(36)) for name in ("taken_by", "place_uuid")),
    sa.UniqueConstraint("instance_uuid", "slot", name="uniq_allocations_slot"),
)

# Ours: room that is held for a project. Its places are rows of allocations; each has this size.
reservations = _table(
    "reservations",
    *_identity(),
    sa.Column("name", sa.String(255), nullable=False, unique=True),
    *_names("project_id"),
    *_names("flavor_name", "availability_zone", nullable=True),
    *_counts("number", "vcpus", "memory_mb"),
    sa.Column("disk_mb", sa.BigInteger, nullable=False),
    sa.Column("spread", sa.String(32)),
    *(sa.Column(name, _MOMENT) for name in ("created_at", "starts_at", "ends_at")),
)

# Ours: room for a protected instance on a node of another failure domain; see
# inventory.claims.standbys.
standbys = _table(
    "standbys",
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("instance_uuid", sa.String(36), nullable=False),
    *_names("project_id", "group_uuid", nullable=True),
    # The node whose loss it covers, and the failure domains of that, separated by commas.
    *_counts("place_node_id"),
    sa.Column("domains", _TEXT, nullable=False),
    # Where it is held; NULL for an instance without a standby, of which reason says why.
    sa.Column("compute_node_id", sa.Integer, index=True),
    sa.Column("reason", _TEXT),
    sa.Column("mode", sa.String(16), nullable=False),
    *_counts("vcpus", "memory_mb"),
    sa.Column("disk_mb", sa.BigInteger, nullable=False),
    # The request to evacuate the instance, as in saved decisions.
    sa.Column("request", _TEXT, nullable=False),
    sa.Column("created_at", _MOMENT),
    sa.UniqueConstraint("instance_uuid", "place_node_id", name="uniq_standbys_place"),
    sa.Index("ix_standbys_group_uuid", "group_uuid"),
)

# Ours: a claim for a member of a server group locks the group's row, so that claims see each other.
claimed_groups = _table(
    "claimed_groups", sa.Column("uuid", sa.String(255), primary_key=True), *_counts("claims")
)

# Ours: which operations were committed; see Database.write_once().
idempotency_keys = _table(
    "idempotency_keys",
    sa.Column("key", sa.String(36), primary_key=True, quote=True),
    sa.Column("created_at", sa.DateTime, nullable=False, index=True),
)

# Ours: work that one process of several does at a time; see inventory.leases.
leases = _table(
    "leases",
    sa.Column("name", sa.String(64), primary_key=True, quote=True),
    *_names("owner"),
    sa.Column("expires_at", _MOMENT, nullable=False),
)

# Ours: how often a table changed in a way that every reader must see at once. Readers compare one
# number instead of reading a table that hardly ever changes.
revisions = _table(
    "revisions", sa.Column("name", sa.String(64), primary_key=True), *_counts("revision")
)

# Ours: what other configurations would have decided, as JSON; see inventory.shadow_reports.
shadow_reports = _table(
    "shadow_reports",
    sa.Column("id", sa.Integer, primary_key=True),
    *_names("scheduler", "config"),
    *(sa.Column(name, _MOMENT, nullable=False) for name in ("began_at", "written_at")),
    sa.Column("document", _TEXT, nullable=False),
)

# Ours: what operators and agents have changed; see inventory.audit_log.
audit_log = _table(
    "audit_log",
    sa.Column("id", _NUMBER, primary_key=True),
    sa.Column("changed_at", _MOMENT, nullable=False, index=True),
    *_names("operator", "machine", "command", "kind", "name"),
    *_texts("hosts", "before", "after"),
)

# Ours, like the two tables after it: saved decisions.
decisions = _table(
    "decisions",
    sa.Column("id", _NUMBER, primary_key=True),
    sa.Column("request_id", sa.String(255), index=True),
    *_names("project_id", nullable=True),
    sa.Column("decided_at", _MOMENT, nullable=False, index=True),
    # The name of the host that the scheduler runs on.
    *_names("scheduler"),
    sa.Column("outcome", sa.String(16), nullable=False),
    # The number of instances to place, and the hosts of the first of them.
    *_counts("instances"),
    *_names("hosts", nullable=True),
    sa.Column("milliseconds", sa.Double, nullable=False),
    *_counts("conflicts"),
    # The snapshot of the hosts that it was made from: the id of its log and its number there.
    sa.Column("snapshot_log", sa.String(64), nullable=False),
    *_counts("snapshot_number"),
    sa.Column("document", _BYTES, nullable=False),
    # What each of the instances takes; NULL for a rebuild.
    *(sa.Column(name, sa.BigInteger) for name in ("vcpus", "memory_mb", "disk_mb")),
    sa.UniqueConstraint("snapshot_log", "snapshot_number", name="uniq_decisions_snapshot"),
    # All that a count of the sizes needs, since the rows are large.
    sa.Index(*("ix_decisions_sizes", "decided_at", "vcpus", "memory_mb", "disk_mb"), "instances"),
    # The number of a deleted decision is not used again.
    sqlite_autoincrement=True,
)

# No foreign keys here and below: adding a row would lock the one that it refers to.
decision_instances = _table(
    "decision_instances",
    sa.Column("decision_id", _NUMBER, primary_key=True, autoincrement=False),
    sa.Column("instance_uuid", sa.String(36), primary_key=True),
    sa.Index("ix_decision_instances_instance_uuid", "instance_uuid"),
)

# Snapshots of one log, written together, in pieces that are small enough for any server.
decision_inputs = _table(
    "decision_inputs",
    sa.Column("snapshot_log", sa.String(64), primary_key=True),
    # The number of the first of these snapshots.
    sa.Column("first", sa.Integer, primary_key=True, autoincrement=False, quote=True),
    sa.Column("piece", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("written_at", _MOMENT, nullable=False),
    sa.Column("data", _BYTES, nullable=False),
    sa.Index("ix_decision_inputs_snapshot_log_written_at", "snapshot_log", "written_at"),
)
