# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Flavor and image properties of instances."""

import sqlalchemy as sa

from inventory.migrations.steps import NAME, TEXT, add_columns

revision = "0002"
down_revision = "0001"
oldest_code = "0001"


def upgrade() -> None:
    add_columns(
        "instances",
        sa.Column("flavor_id", sa.Integer(), nullable=True),
        sa.Column("flavor_name", NAME, nullable=True),
        sa.Column("image_properties", TEXT, nullable=True),
    )
