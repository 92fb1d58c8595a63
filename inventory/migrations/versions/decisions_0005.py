# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Saved decisions."""

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from inventory.migrations.steps import MOMENT, NAME, add_index, create_table

revision = "0005"
down_revision = "0004"
oldest_code = "0004"

_FILM = sa.String(length=64)
_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_BYTES = sa.LargeBinary().with_variant(mysql.MEDIUMBLOB(), "mysql", "mariadb")


def upgrade() -> None:
    create_table(
        "decisions",
        sa.Column("id", _NUMBER, primary_key=True),
        sa.Column("request_id", NAME, nullable=True),
        sa.Column("project_id", NAME, nullable=True),
        sa.Column("decided_at", MOMENT, nullable=False),
        sa.Column("scheduler", NAME, nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=False),
        sa.Column("instances", sa.Integer(), nullable=False),
        sa.Column("hosts", NAME, nullable=True),
        sa.Column("milliseconds", sa.Double(), nullable=False),
        sa.Column("conflicts", sa.Integer(), nullable=False),
        sa.Column("film", _FILM, nullable=False),
        sa.Column("frame", sa.Integer(), nullable=False),
        sa.Column("document", _BYTES, nullable=False),
        sa.UniqueConstraint("film", "frame", name="uniq_decisions_frame"),
        sqlite_autoincrement=True,
    )
    create_table(
        "decision_instances",
        sa.Column("decision_id", _NUMBER, primary_key=True, autoincrement=False),
        sa.Column("instance_uuid", sa.String(length=36), primary_key=True),
    )
    create_table(
        "decision_inputs",
        sa.Column("film", _FILM, primary_key=True),
        sa.Column("first", sa.Integer(), primary_key=True, autoincrement=False, quote=True),
        sa.Column("piece", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("written_at", MOMENT, nullable=False),
        sa.Column("data", _BYTES, nullable=False),
    )
    add_index("decisions", "request_id")
    add_index("decisions", "decided_at")
    add_index("decision_instances", "instance_uuid")
    add_index("decision_inputs", "film", "written_at")
