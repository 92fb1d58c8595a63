# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Claims, and exact figures of disks."""

import sqlalchemy as sa
from alembic import op

from inventory.migrations.steps import MOMENT, NAME, TEXT, add_columns, add_index, create_table

revision = "0004"
down_revision = "0003"
# Audits of earlier agents do not count claims.
oldest_code = "0004"


def upgrade() -> None:
    add_columns(
        "compute_nodes",
        sa.Column("disk_mb_used", sa.BigInteger(), nullable=True),
        sa.Column("free_disk_mb", sa.BigInteger(), nullable=True),
        sa.Column("claims", sa.Integer(), nullable=False, server_default="0"),
    )
    # Claims may come before the first audit of this release.
    op.execute(
        "UPDATE compute_nodes SET disk_mb_used = 1024 * local_gb_used, free_disk_mb = 1024 * CASE"
        " WHEN disk_available_least < free_disk_gb THEN disk_available_least ELSE free_disk_gb END"
        " WHERE disk_mb_used IS NULL"
    )
    _create_allocations()
    add_index("allocations", "compute_node_id")
    add_index("allocations", "group_uuid")
    create_table(
        "claimed_groups",
        sa.Column("uuid", NAME, primary_key=True),
        sa.Column("claims", sa.Integer(), nullable=False),
    )


def _create_allocations() -> None:
    create_table(
        "allocations",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("instance_uuid", sa.String(length=36), nullable=False),
        sa.Column("slot", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("compute_node_id", sa.Integer(), nullable=False),
        sa.Column("host", NAME, nullable=False),
        sa.Column("node", NAME, nullable=False),
        sa.Column("request_id", NAME, nullable=True),
        sa.Column("digest", sa.String(length=64), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("answer", TEXT, nullable=True),
        sa.Column("group_uuid", NAME, nullable=True),
        sa.Column("in_place", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("vcpus", sa.Integer(), nullable=False),
        sa.Column("memory_mb", sa.Integer(), nullable=False),
        sa.Column("disk_mb", sa.BigInteger(), nullable=False),
        sa.Column("numa", TEXT, nullable=True),
        sa.Column("pci", TEXT, nullable=True),
        sa.Column("project_id", NAME, nullable=True),
        sa.Column("root_gb", sa.Integer(), nullable=False),
        sa.Column("ephemeral_gb", sa.Integer(), nullable=False),
        sa.Column("flavor_id", sa.Integer(), nullable=True),
        sa.Column("flavor_name", NAME, nullable=True),
        sa.Column("image_properties", TEXT, nullable=True),
        sa.Column("created_at", MOMENT, nullable=True),
        sa.Column("expires_at", MOMENT, nullable=True),
        sa.UniqueConstraint("instance_uuid", "slot", name="uniq_allocations_slot"),
    )
