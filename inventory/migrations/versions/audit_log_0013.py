# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The audit log: what operators and agents have changed."""

import sqlalchemy as sa

from inventory.migrations.steps import add_index, create_table
from inventory.tables import MOMENT, NAME, NUMBER, TEXT

revision = "0013"
down_revision = "0012"
# It only adds a table, which code of earlier schemas never writes.
oldest_code = "0010"


def upgrade() -> None:
    create_table(
        "audit_log",
        sa.Column("id", NUMBER, primary_key=True),
        sa.Column("changed_at", MOMENT, nullable=False),
        *(
            sa.Column(name, NAME, nullable=False)
            for name in ("operator", "machine", "command", "kind", "name")
        ),
        *(sa.Column(name, TEXT) for name in ("hosts", "before", "after")),
    )
    add_index("audit_log", "changed_at")
