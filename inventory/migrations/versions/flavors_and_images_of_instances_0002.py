# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Flavor and image properties of instances."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0002"
down_revision = "0001"

_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")


def upgrade() -> None:
    new = (
        sa.Column("flavor_id", sa.Integer(), nullable=True),
        sa.Column("flavor_name", sa.String(length=255), nullable=True),
        sa.Column("image_properties", _TEXT, nullable=True),
    )
    # MariaDB commits each change of a table: a sync that was killed between two of them goes on.
    there = {column["name"] for column in sa.inspect(op.get_bind()).get_columns("instances")}
    for column in new:
        if column.name not in there:
            op.add_column("instances", column)
