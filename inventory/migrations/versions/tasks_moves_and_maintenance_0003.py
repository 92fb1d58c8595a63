# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Managed instances, migrations, and hosts in maintenance."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

from inventory.migrations.steps import NAME, add_columns, add_index, create_table

revision = "0003"
down_revision = "0002"
oldest_code = "0002"

_TIME = sa.DateTime()


def upgrade() -> None:
    add_columns(
        "instances",
        sa.Column("managed", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("task_state", NAME, nullable=True),
        sa.Column("os_type", NAME, nullable=True),
        sa.Column("ephemeral_gb", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("swap_mb", sa.Integer(), nullable=False, server_default="0"),
    )
    add_columns("services", sa.Column("maintenance", NAME, nullable=True))
    if op.get_bind().dialect.name != "sqlite":
        # SQLite stores all times as text.
        op.alter_column("compute_nodes", "updated_at", type_=mysql.DATETIME(fsp=6))
    _create_migrations()
    add_index("migrations", "updated_at")
    add_index("migrations", "source_compute", "source_node", name="source")
    add_index("migrations", "dest_compute", "dest_node", name="dest")
    add_index("migrations", "instance_uuid")


def _create_migrations() -> None:
    each = ("vcpus", "memory_mb", "disk_mb")
    sizes = (f"{age}_{size}" for age in ("old", "new") for size in each)
    create_table(
        "migrations",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("uuid", sa.String(length=36), nullable=False, unique=True),
        sa.Column("instance_uuid", sa.String(length=36), nullable=False),
        sa.Column("migration_type", NAME, nullable=False),
        sa.Column("status", NAME, nullable=False),
        sa.Column("source_compute", NAME, nullable=True),
        sa.Column("source_node", NAME, nullable=True),
        sa.Column("dest_compute", NAME, nullable=True),
        sa.Column("dest_node", NAME, nullable=True),
        *(sa.Column(name, sa.Integer(), nullable=False, server_default="0") for name in sizes),
        sa.Column("created_at", _TIME, nullable=True),
        sa.Column("updated_at", _TIME, nullable=True),
        sa.Column("deleted_at", _TIME, nullable=True),
        sa.Column("deleted", sa.Integer(), nullable=False, server_default="0"),
    )
