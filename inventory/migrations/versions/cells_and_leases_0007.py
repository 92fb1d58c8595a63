# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The cell of each host, and leases of work that one process does at a time."""

import sqlalchemy as sa

from inventory.migrations.steps import MOMENT, NAME, add_columns, create_table

revision = "0007"
down_revision = "0006"
oldest_code = "0006"


def upgrade() -> None:
    add_columns("services", sa.Column("cell_uuid", sa.String(length=36)))
    create_table(
        "leases",
        sa.Column("name", sa.String(length=64), primary_key=True, quote=True),
        sa.Column("owner", NAME, nullable=False),
        sa.Column("expires_at", MOMENT, nullable=False),
    )
