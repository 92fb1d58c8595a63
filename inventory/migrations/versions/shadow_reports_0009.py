# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Reports of shadows."""

import sqlalchemy as sa

from inventory.migrations.steps import MOMENT, NAME, TEXT, create_table

revision = "0009"
down_revision = "0008"
oldest_code = "0006"


def upgrade() -> None:
    create_table(
        "shadow_reports",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("scheduler", NAME, nullable=False),
        sa.Column("config", NAME, nullable=False),
        sa.Column("began_at", MOMENT, nullable=False),
        sa.Column("written_at", MOMENT, nullable=False),
        sa.Column("document", TEXT, nullable=False),
    )
