# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Steps of migrations that can be repeated, and the types of their columns.

MariaDB commits each change of a table: a sync that was killed between two of them goes on.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

NAME = sa.String(length=255)
TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")
MOMENT = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
OPTIONS: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4"}


def create_table(name: str, *columns: Any, **options: Any) -> None:
    """Create a table unless it exists."""
    if not sa.inspect(op.get_bind()).has_table(name):
        op.create_table(name, *columns, **options, **OPTIONS)


def add_columns(table: str, *columns: sa.Column[Any]) -> None:
    """Add those of the columns that do not exist."""
    there = {column["name"] for column in sa.inspect(op.get_bind()).get_columns(table)}
    for column in columns:
        if column.name not in there:
            op.add_column(table, column)


def add_index(table: str, *columns: str, name: str = "") -> None:
    """Add an index unless it exists; its name is made of the columns, or of name."""
    full = f"ix_{table}_{name or '_'.join(columns)}"
    if full not in {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(table)}:
        op.create_index(full, table, list(columns))
