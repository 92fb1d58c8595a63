# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Claims, and exact figures of disks."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0004"
down_revision = "0003"

_NAME = sa.String(length=255)
_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")
_MOMENT = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
_OPTIONS: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4"}


# MariaDB commits each change of a table: a sync that was killed between two of them goes on.
def upgrade() -> None:
    there = {column["name"] for column in sa.inspect(op.get_bind()).get_columns("compute_nodes")}
    for column in (
        sa.Column("disk_mb_used", sa.BigInteger(), nullable=True),
        sa.Column("free_disk_mb", sa.BigInteger(), nullable=True),
        sa.Column("claims", sa.Integer(), nullable=False, server_default="0"),
    ):
        if column.name not in there:
            op.add_column("compute_nodes", column)
    # Claims may come before the first audit of this release.
    op.execute(
        "UPDATE compute_nodes SET disk_mb_used = 1024 * local_gb_used, free_disk_mb = 1024 * CASE"
        " WHEN disk_available_least < free_disk_gb THEN disk_available_least ELSE free_disk_gb END"
        " WHERE disk_mb_used IS NULL"
    )
    if not sa.inspect(op.get_bind()).has_table("allocations"):
        _create_allocations()
    for name in ("compute_node_id", "group_uuid"):
        indices = {each["name"] for each in sa.inspect(op.get_bind()).get_indexes("allocations")}
        if f"ix_allocations_{name}" not in indices:
            op.create_index(f"ix_allocations_{name}", "allocations", [name])
    if not sa.inspect(op.get_bind()).has_table("claimed_groups"):
        op.create_table(
            "claimed_groups",
            sa.Column("uuid", _NAME, primary_key=True),
            sa.Column("claims", sa.Integer(), nullable=False),
            **_OPTIONS,
        )


def _create_allocations() -> None:
    op.create_table(
        "allocations",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("instance_uuid", sa.String(length=36), nullable=False),
        sa.Column("slot", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("compute_node_id", sa.Integer(), nullable=False),
        sa.Column("host", _NAME, nullable=False),
        sa.Column("node", _NAME, nullable=False),
        sa.Column("request_id", _NAME, nullable=True),
        sa.Column("digest", sa.String(length=64), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("answer", _TEXT, nullable=True),
        sa.Column("group_uuid", _NAME, nullable=True),
        sa.Column("in_place", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("vcpus", sa.Integer(), nullable=False),
        sa.Column("memory_mb", sa.Integer(), nullable=False),
        sa.Column("disk_mb", sa.BigInteger(), nullable=False),
        sa.Column("numa", _TEXT, nullable=True),
        sa.Column("pci", _TEXT, nullable=True),
        sa.Column("project_id", _NAME, nullable=True),
        sa.Column("root_gb", sa.Integer(), nullable=False),
        sa.Column("ephemeral_gb", sa.Integer(), nullable=False),
        sa.Column("flavor_id", sa.Integer(), nullable=True),
        sa.Column("flavor_name", _NAME, nullable=True),
        sa.Column("image_properties", _TEXT, nullable=True),
        sa.Column("created_at", _MOMENT, nullable=True),
        sa.Column("expires_at", _MOMENT, nullable=True),
        sa.UniqueConstraint("instance_uuid", "slot", name="uniq_allocations_slot"),
        **_OPTIONS,
    )
