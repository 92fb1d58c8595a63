# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Instances that somebody else keeps, migrations, and hosts in maintenance."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0003"
down_revision = "0002"

_TIME = sa.DateTime()
_NAME = sa.String(length=255)
_OPTIONS: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4"}


def upgrade() -> None:
    _add(
        "instances",
        sa.Column("managed", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("task_state", _NAME, nullable=True),
        sa.Column("os_type", _NAME, nullable=True),
        sa.Column("ephemeral_gb", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("swap_mb", sa.Integer(), nullable=False, server_default="0"),
    )
    _add("services", sa.Column("maintenance", _NAME, nullable=True))
    if op.get_bind().dialect.name != "sqlite":
        # SQLite has one kind of texts for all moments.
        op.alter_column("compute_nodes", "updated_at", type_=mysql.DATETIME(fsp=6))
    if not sa.inspect(op.get_bind()).has_table("migrations"):
        _create_migrations()
    _index("migrations", "updated_at", "updated_at")
    _index("migrations", "source", "source_compute", "source_node")
    _index("migrations", "dest", "dest_compute", "dest_node")
    _index("migrations", "instance_uuid", "instance_uuid")


# MariaDB commits each change of a table: a sync that was killed between two of them goes on.
def _add(table: str, *new: sa.Column[Any]) -> None:
    there = {column["name"] for column in sa.inspect(op.get_bind()).get_columns(table)}
    for column in new:
        if column.name not in there:
            op.add_column(table, column)


def _index(table: str, name: str, *columns: str) -> None:
    there = {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(table)}
    if f"ix_{table}_{name}" not in there:
        op.create_index(f"ix_{table}_{name}", table, columns)


def _create_migrations() -> None:
    each = ("vcpus", "memory_mb", "disk_mb")
    sizes = (f"{age}_{size}" for age in ("old", "new") for size in each)
    op.create_table(
        "migrations",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("uuid", sa.String(length=36), nullable=False, unique=True),
        sa.Column("instance_uuid", sa.String(length=36), nullable=False),
        sa.Column("migration_type", _NAME, nullable=False),
        sa.Column("status", _NAME, nullable=False),
        sa.Column("source_compute", _NAME, nullable=True),
        sa.Column("source_node", _NAME, nullable=True),
        sa.Column("dest_compute", _NAME, nullable=True),
        sa.Column("dest_node", _NAME, nullable=True),
        *(sa.Column(name, sa.Integer(), nullable=False, server_default="0") for name in sizes),
        sa.Column("created_at", _TIME, nullable=True),
        sa.Column("updated_at", _TIME, nullable=True),
        sa.Column("deleted_at", _TIME, nullable=True),
        sa.Column("deleted", sa.Integer(), nullable=False, server_default="0"),
        **_OPTIONS,
    )
