# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The tables. compute_nodes and services have Nova's columns; what we add is marked as ours."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

metadata = sa.MetaData()

NAME = sa.String(255)
UUID = sa.String(36)
TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")
# Orders events within a second.
MOMENT = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
# A busy cloud makes more decisions in a year than an ordinary integer has numbers.
NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
BYTES = sa.LargeBinary().with_variant(mysql.MEDIUMBLOB(), "mysql", "mariadb")
OPTIONS: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4"}


def _table(name: str, *items: Any, **options: Any) -> sa.Table:
    return sa.Table(name, metadata, *items, **options, **OPTIONS)


def _optional(kind: Any, names: str, **options: Any) -> list[sa.Column[Any]]:
    """Return columns of one type; names are separated by spaces."""
    return [sa.Column(name, kind, **options) for name in names.split()]


def _needed(kind: Any, names: str, **options: Any) -> list[sa.Column[Any]]:
    return _optional(kind, names, nullable=False, **options)


def _zeros(names: str) -> list[sa.Column[Any]]:
    return _needed(sa.Integer, names, server_default="0")


def _flags(names: str) -> list[sa.Column[Any]]:
    return _needed(sa.Boolean, names, server_default=sa.false())


def _id() -> sa.Column[Any]:
    return sa.Column("id", sa.Integer, primary_key=True)


def _identity() -> list[sa.Column[Any]]:
    return [_id(), *_needed(UUID, "uuid", unique=True)]


def _timestamps(updated: Any = sa.DateTime) -> list[sa.Column[Any]]:
    # deleted is 0 for a live row, else the row's id: several dead rows may carry the same names.
    deleted = [*_optional(sa.DateTime, "deleted_at"), *_zeros("deleted")]
    created = _optional(sa.DateTime, "created_at")
    return [*created, *_optional(updated, "updated_at", index=True), *deleted]


compute_nodes = _table(
    "compute_nodes",
    *_identity(),
    *_needed(NAME, "host hypervisor_hostname"),
    *_needed(TEXT, "hypervisor_type cpu_info"),
    *_needed(sa.Integer, "hypervisor_version vcpus memory_mb local_gb"),
    *_needed(sa.Integer, "vcpus_used memory_mb_used local_gb_used"),
    *_optional(sa.Integer, "free_ram_mb free_disk_gb disk_available_least current_workload"),
    *_optional(sa.Integer, "running_vms service_id"),
    *_optional(sa.String(39), "host_ip"),
    *_optional(TEXT, "supported_instances metrics extra_resources stats pci_stats numa_topology"),
    # Double precision, so that a ratio such as 1.1 is found again by its value.
    *_optional(sa.Double, "cpu_allocation_ratio ram_allocation_ratio disk_allocation_ratio"),
    sa.Column("mapped", sa.Integer, server_default="0"),
    # Schedulers compare updated_at with the time at which they chose the host for an instance.
    *_timestamps(MOMENT),
    # Ours: grows by one with every write of the row.
    *_zeros("generation"),
    # Ours, in MB, of which local_gb_used and free_disk_gb are the rounded values; what is free is
    # bounded by disk_available_least, too.
    *_optional(sa.BigInteger, "disk_mb_used free_disk_mb"),
    # Ours: how many claims are part of the usage, besides the instances that were seen.
    *_zeros("claims"),
    # Ours: how often the aggregates and services of the host have changed; see inventory.revisions.
    *_zeros("eligibility_revision"),
    sa.UniqueConstraint("host", "hypervisor_hostname", "deleted", name="uniq_compute_nodes_names"),
)

services = _table(
    "services",
    *_identity(),
    *_needed(NAME, "host topic"),
    sa.Column("binary", NAME, nullable=False, quote=True),
    *_zeros("report_count"),
    *_flags("disabled forced_down"),
    *_optional(NAME, "disabled_reason"),
    *_optional(sa.DateTime, "last_seen_up"),
    sa.Column("version", sa.Integer, server_default="0"),
    # Ours: NULL, or the reason for which the host is in maintenance, which may be empty.
    *_optional(NAME, "maintenance"),
    # Ours: see inventory.revisions.
    *_zeros("eligibility_revision"),
    # Ours: the cell of the host in a Nova cloud, NULL for what [scheduler] cell_uuid says.
    *_optional(UUID, "cell_uuid"),
    # Ours: what the daemon reports about itself, and when it last did; see daemon_facts.
    *_optional(NAME, "daemon_release daemon_host last_error"),
    *_optional(sa.DateTime, "started_at reported_at last_error_at"),
    *_timestamps(),
    sa.UniqueConstraint("host", "topic", "deleted", name="uniq_services_topic"),
    sa.UniqueConstraint("host", "binary", "deleted", name="uniq_services_binary"),
)

instances = _table(
    "instances",
    _id(),
    *_needed(UUID, "uuid"),
    *_needed(NAME, "host node"),
    *_optional(NAME, "display_name project_id flavor_name os_type vm_state task_state"),
    # The disks are local ones: root_gb is 0 for an instance that boots from a volume. swap_mb is
    # ours, a part of the flavor.
    *_needed(sa.Integer, "vcpus memory_mb root_gb"),
    *_zeros("ephemeral_gb swap_mb"),
    # Nova's instance_type_id, not the flavorid that users see.
    *_optional(sa.Integer, "flavor_id"),
    # A JSON object whose values are texts.
    *_optional(TEXT, "image_properties"),
    # Ours: rows that the builder of instances writes; agents count them, and write those of guests.
    *_flags("managed"),
    *_timestamps(),
    # An instance that moves is on two hosts for a while.
    sa.UniqueConstraint("uuid", "host", "node", name="uniq_instances_place"),
    # What an audit asks for, on every host every minute.
    sa.Index("ix_instances_host_node", "host", "node"),
)

migrations = _table(
    "migrations",
    *_identity(),
    *_needed(UUID, "instance_uuid"),
    *_needed(NAME, "migration_type status"),
    *_optional(NAME, "source_compute source_node dest_compute dest_node"),
    # Ours, where Nova has ids of flavors: the size of the instance before and after.
    *_zeros("old_vcpus old_memory_mb old_disk_mb new_vcpus new_memory_mb new_disk_mb"),
    *_timestamps(),
    sa.Index("ix_migrations_source", "source_compute", "source_node"),
    sa.Index("ix_migrations_dest", "dest_compute", "dest_node"),
    sa.Index("ix_migrations_instance_uuid", "instance_uuid"),
)

aggregates = _table(
    "aggregates",
    *_identity(),
    sa.Column("name", NAME, nullable=False, unique=True),
    *_optional(sa.DateTime, "created_at updated_at"),
)

aggregate_hosts = _table(
    "aggregate_hosts",
    sa.Column("aggregate_id", sa.ForeignKey("aggregates.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("host", NAME, primary_key=True),
)

aggregate_metadata = _table(
    "aggregate_metadata",
    sa.Column("aggregate_id", sa.ForeignKey("aggregates.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("key", NAME, primary_key=True, quote=True),
    *_needed(NAME, "value"),
)

server_groups = _table(
    "server_groups",
    *_identity(),
    *_needed(NAME, "name policy"),
    *_optional(NAME, "project_id"),
    *_optional(TEXT, "rules"),
    *_optional(sa.DateTime, "created_at updated_at"),
)

server_group_members = _table(
    "server_group_members",
    sa.Column("group_id", sa.ForeignKey("server_groups.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("instance_uuid", UUID, primary_key=True),
)

# Ours: a claim holds what an instance needs of a node, from the answer of a scheduler until the
# instance is seen there.
allocations = _table(
    "allocations",
    _id(),
    *_needed(UUID, "instance_uuid"),
    *_needed(sa.String(16), "state"),
    # 0 for the pending claim, of which an instance has one at most; see Claim.slot.
    *_needed(sa.Integer, "slot"),
    sa.Column("compute_node_id", sa.Integer, nullable=False, index=True),
    *_needed(NAME, "host node"),
    # The request, and the answer to it.
    *_optional(NAME, "request_id"),
    *_optional(sa.String(64), "digest"),
    *_zeros("attempt"),
    *_optional(TEXT, "answer"),
    *_optional(NAME, "group_uuid", index=True),
    # The instance was on this node already, with another size.
    *_flags("in_place"),
    # As in instances.
    *_needed(sa.Integer, "vcpus memory_mb root_gb ephemeral_gb"),
    *_optional(NAME, "project_id flavor_name"),
    *_optional(sa.Integer, "flavor_id"),
    *_optional(TEXT, "image_properties"),
    *_needed(sa.BigInteger, "disk_mb"),
    # The fitted cells of the instance, and the pools of its devices.
    *_optional(TEXT, "numa pci"),
    *_optional(MOMENT, "created_at expires_at"),
    # Of a reserved place: its reservation, that which has it next, and the instance that has taken
    # it. Of a claim: the place that it has taken.
    *_optional(UUID, "reservation_uuid next_reservation_uuid", index=True),
    *_optional(UUID, "taken_by place_uuid"),
    sa.UniqueConstraint("instance_uuid", "slot", name="uniq_allocations_slot"),
)

# Ours: room that is held for a project. Its places are rows of allocations; each has this size.
reservations = _table(
    "reservations",
    *_identity(),
    sa.Column("name", NAME, nullable=False, unique=True),
    *_needed(NAME, "project_id"),
    *_optional(NAME, "flavor_name availability_zone"),
    *_needed(sa.Integer, "number vcpus memory_mb"),
    *_needed(sa.BigInteger, "disk_mb"),
    *_optional(sa.String(32), "spread"),
    *_optional(MOMENT, "created_at starts_at ends_at"),
)

# Ours: room for a protected instance in another failure domain; see inventory.claims.standbys.
standbys = _table(
    "standbys",
    _id(),
    *_needed(UUID, "instance_uuid"),
    *_optional(NAME, "project_id"),
    *_optional(NAME, "group_uuid", index=True),
    # The node whose loss it covers, and the failure domains of that, separated by commas.
    *_needed(sa.Integer, "place_node_id"),
    *_needed(TEXT, "domains"),
    # Where it is held; NULL for an instance without a standby, of which reason says why.
    *_optional(sa.Integer, "compute_node_id", index=True),
    *_optional(TEXT, "reason"),
    # How the instance is protected: none for one that has only what its reserved place has.
    *_needed(sa.String(16), "mode"),
    *_needed(sa.Integer, "vcpus memory_mb"),
    *_needed(sa.BigInteger, "disk_mb"),
    # The request to evacuate the instance, as in saved decisions.
    *_needed(TEXT, "request"),
    # Of a reserved place, whose uuid is instance_uuid: the request without an instance in it.
    *_optional(TEXT, "place_request"),
    *_optional(MOMENT, "created_at"),
    sa.UniqueConstraint("instance_uuid", "place_node_id", name="uniq_standbys_place"),
    # The keeper ends standbys by the numbers that it has read before.
    sqlite_autoincrement=True,
)

# Ours: a claim for a member of a server group locks the group's row, so that claims see each other.
claimed_groups = _table(
    "claimed_groups", sa.Column("uuid", NAME, primary_key=True), *_needed(sa.Integer, "claims")
)

# Ours: which operations were committed; see Database.write_once().
idempotency_keys = _table(
    "idempotency_keys",
    sa.Column("key", UUID, primary_key=True, quote=True),
    sa.Column("created_at", sa.DateTime, nullable=False, index=True),
)

# Ours: work that one process of several does at a time; see inventory.leases.
leases = _table(
    "leases",
    sa.Column("name", sa.String(64), primary_key=True, quote=True),
    *_needed(NAME, "owner"),
    *_needed(MOMENT, "expires_at"),
)

# Ours: how often a table changed in a way that every reader must see at once. Readers compare one
# number instead of reading a table that hardly ever changes.
revisions = _table(
    "revisions",
    sa.Column("name", sa.String(64), primary_key=True),
    *_needed(sa.Integer, "revision"),
)

# Ours: what other configurations would have decided, as JSON; see inventory.shadow_reports.
shadow_reports = _table(
    "shadow_reports",
    _id(),
    *_needed(NAME, "scheduler config"),
    *_needed(MOMENT, "began_at written_at"),
    *_needed(TEXT, "document"),
)

# Ours: what operators and agents have changed; see inventory.audit_log.
audit_log = _table(
    "audit_log",
    sa.Column("id", NUMBER, primary_key=True),
    sa.Column("changed_at", MOMENT, nullable=False, index=True),
    *_needed(NAME, "operator machine command kind name"),
    *_optional(TEXT, "hosts before after"),
)

# Ours, like the two tables after it: saved decisions.
decisions = _table(
    "decisions",
    sa.Column("id", NUMBER, primary_key=True),
    *_optional(NAME, "request_id", index=True),
    *_optional(NAME, "project_id"),
    sa.Column("decided_at", MOMENT, nullable=False, index=True),
    # The name of the host that the scheduler runs on.
    *_needed(NAME, "scheduler"),
    *_needed(sa.String(16), "outcome"),
    # The number of instances to place, and the hosts of the first of them.
    *_needed(sa.Integer, "instances"),
    *_optional(NAME, "hosts"),
    *_needed(sa.Double, "milliseconds"),
    *_needed(sa.Integer, "conflicts"),
    # The snapshot of the hosts that it was made from: the id of its log and its number there.
    *_needed(sa.String(64), "snapshot_log"),
    *_needed(sa.Integer, "snapshot_number"),
    *_needed(BYTES, "document"),
    # What each of the instances takes; NULL for a rebuild.
    *_optional(sa.BigInteger, "vcpus memory_mb disk_mb"),
    sa.UniqueConstraint("snapshot_log", "snapshot_number", name="uniq_decisions_snapshot"),
    # All that a count of the sizes needs, since the rows are large.
    sa.Index("ix_decisions_sizes", "decided_at", "vcpus", "memory_mb", "disk_mb", "instances"),
    # The number of a deleted decision is not used again.
    sqlite_autoincrement=True,
)

# No foreign keys here and below: adding a row would lock the one that it refers to.
decision_instances = _table(
    "decision_instances",
    sa.Column("decision_id", NUMBER, primary_key=True, autoincrement=False),
    sa.Column("instance_uuid", UUID, primary_key=True),
    sa.Index("ix_decision_instances_instance_uuid", "instance_uuid"),
)

# Snapshots of one log, written together, in pieces that are small enough for any server.
decision_inputs = _table(
    "decision_inputs",
    sa.Column("snapshot_log", sa.String(64), primary_key=True),
    # The number of the first of these snapshots; -1 minus that for the decisions made on them.
    sa.Column("first", sa.Integer, primary_key=True, autoincrement=False, quote=True),
    sa.Column("piece", sa.Integer, primary_key=True, autoincrement=False),
    *_needed(MOMENT, "written_at"),
    *_needed(BYTES, "data"),
    sa.Index("ix_decision_inputs_snapshot_log_written_at", "snapshot_log", "written_at"),
)
