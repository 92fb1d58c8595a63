# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How often what makes a host eligible has changed, and which orders were committed."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_OPTIONS: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4"}


# MariaDB commits each change of a table: a sync that was killed between two of them goes on.
def upgrade() -> None:
    for table in ("compute_nodes", "services"):
        there = {column["name"] for column in sa.inspect(op.get_bind()).get_columns(table)}
        if "eligibility_revision" not in there:
            column = sa.Column(
                "eligibility_revision", sa.Integer(), nullable=False, server_default="0"
            )
            op.add_column(table, column)
    if not sa.inspect(op.get_bind()).has_table("idempotency_keys"):
        op.create_table(
            "idempotency_keys",
            sa.Column("key", sa.String(length=36), primary_key=True, quote=True),
            sa.Column("created_at", sa.DateTime(), nullable=False, index=True),
            **_OPTIONS,
        )
