# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Eligibility revisions, and keys of committed operations."""

import sqlalchemy as sa

from inventory.migrations.steps import add_columns, create_table

revision = "0006"
down_revision = "0005"
# What earlier commands change of a host is not counted.
oldest_code = "0006"


def upgrade() -> None:
    for table in ("compute_nodes", "services"):
        column = sa.Column("eligibility_revision", sa.Integer(), nullable=False, server_default="0")
        add_columns(table, column)
    create_table(
        "idempotency_keys",
        sa.Column("key", sa.String(length=36), primary_key=True, quote=True),
        sa.Column("created_at", sa.DateTime(), nullable=False, index=True),
    )
