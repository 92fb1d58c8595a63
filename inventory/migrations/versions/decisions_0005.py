# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Kept decisions."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0005"
down_revision = "0004"

_NAME = sa.String(length=255)
_FILM = sa.String(length=64)
_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_BYTES = sa.LargeBinary().with_variant(mysql.MEDIUMBLOB(), "mysql", "mariadb")
_MOMENT = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
_OPTIONS: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4"}


_INDICES = (
    ("decisions", ("request_id",)),
    ("decisions", ("decided_at",)),
    ("decision_instances", ("instance_uuid",)),
    ("decision_inputs", ("film", "written_at")),
)


# MariaDB commits each change of a table: a sync that was killed between two of them goes on.
def upgrade() -> None:
    there = sa.inspect(op.get_bind()).get_table_names()
    for name, columns in (
        ("decisions", _decisions()),
        ("decision_instances", _decision_instances()),
        ("decision_inputs", _decision_inputs()),
    ):
        if name not in there:
            op.create_table(name, *columns, sqlite_autoincrement=name == "decisions", **_OPTIONS)
    for table, indexed in _INDICES:
        name = "_".join(["ix", table, *indexed])
        if name not in {each["name"] for each in sa.inspect(op.get_bind()).get_indexes(table)}:
            op.create_index(name, table, list(indexed))


def _decisions() -> list[Any]:
    return [
        sa.Column("id", _NUMBER, primary_key=True),
        sa.Column("request_id", _NAME, nullable=True),
        sa.Column("project_id", _NAME, nullable=True),
        sa.Column("decided_at", _MOMENT, nullable=False),
        sa.Column("scheduler", _NAME, nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=False),
        sa.Column("instances", sa.Integer(), nullable=False),
        sa.Column("hosts", _NAME, nullable=True),
        sa.Column("milliseconds", sa.Double(), nullable=False),
        sa.Column("conflicts", sa.Integer(), nullable=False),
        sa.Column("film", _FILM, nullable=False),
        sa.Column("frame", sa.Integer(), nullable=False),
        sa.Column("document", _BYTES, nullable=False),
        sa.UniqueConstraint("film", "frame", name="uniq_decisions_frame"),
    ]


def _decision_instances() -> list[Any]:
    return [
        sa.Column("decision_id", _NUMBER, primary_key=True, autoincrement=False),
        sa.Column("instance_uuid", sa.String(length=36), primary_key=True),
    ]


def _decision_inputs() -> list[Any]:
    return [
        sa.Column("film", _FILM, primary_key=True),
        sa.Column("first", sa.Integer(), primary_key=True, autoincrement=False, quote=True),
        sa.Column("piece", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("written_at", _MOMENT, nullable=False),
        sa.Column("data", _BYTES, nullable=False),
    ]
