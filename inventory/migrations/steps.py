# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Steps of migrations that can be repeated.

MariaDB commits each change of a table: a sync that was killed between two of them goes on.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

from inventory.tables import OPTIONS


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


def add_index(table: str, column: str) -> None:
    """Add an index unless it exists."""
    name = f"ix_{table}_{column}"
    if name not in {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(table)}:
        op.create_index(name, table, [column])
