# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Reservations, whose places are claims without instances."""

import sqlalchemy as sa

from inventory.migrations.steps import add_columns, add_index, create_table
from inventory.tables import MOMENT, NAME, UUID

revision = "0011"
down_revision = "0010"
# It only adds, and code of 0010 counts a place as it counts a claim.
oldest_code = "0010"


def upgrade() -> None:
    create_table(
        "reservations",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("uuid", UUID, nullable=False, unique=True),
        sa.Column("name", NAME, nullable=False, unique=True),
        sa.Column("project_id", NAME, nullable=False),
        *(sa.Column(name, NAME) for name in ("flavor_name", "availability_zone")),
        *(sa.Column(name, sa.Integer, nullable=False) for name in ("number", "vcpus", "memory_mb")),
        sa.Column("disk_mb", sa.BigInteger, nullable=False),
        sa.Column("spread", sa.String(length=32)),
        *(sa.Column(name, MOMENT) for name in ("created_at", "ends_at")),
    )
    names = ("reservation_uuid", "taken_by", "place_uuid")
    add_columns("allocations", *(sa.Column(name, UUID) for name in names))
    add_index("allocations", "reservation_uuid")
