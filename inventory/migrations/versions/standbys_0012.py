# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Standbys: room for protected instances on nodes of other failure domains."""

import sqlalchemy as sa

from inventory.migrations.steps import add_index, create_table
from inventory.tables import MOMENT, NAME, TEXT, UUID

revision = "0012"
down_revision = "0011"
# It only adds a table, which code of earlier schemas never writes.
oldest_code = "0010"


def upgrade() -> None:
    create_table(
        "standbys",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("instance_uuid", UUID, nullable=False),
        *(sa.Column(name, NAME) for name in ("project_id", "group_uuid")),
        sa.Column("place_node_id", sa.Integer, nullable=False),
        sa.Column("domains", TEXT, nullable=False),
        sa.Column("compute_node_id", sa.Integer),
        sa.Column("reason", TEXT),
        sa.Column("mode", sa.String(length=16), nullable=False),
        *(sa.Column(name, sa.Integer, nullable=False) for name in ("vcpus", "memory_mb")),
        sa.Column("disk_mb", sa.BigInteger, nullable=False),
        sa.Column("request", TEXT, nullable=False),
        sa.Column("created_at", MOMENT),
        sa.UniqueConstraint("instance_uuid", "place_node_id", name="uniq_standbys_place"),
        sqlite_autoincrement=True,
    )
    add_index("standbys", "compute_node_id")
    add_index("standbys", "group_uuid")
