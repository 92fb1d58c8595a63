# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How tables of MariaDB and MySQL store and compare texts: exactly, as Python and SQLite do."""

import sqlalchemy as sa

from inventory.dialects import exact_collation
from inventory.tables import metadata


def inexact_tables(connection: sa.Connection) -> list[str]:
    """Return our tables with texts that are not stored or compared exactly.

    They are those of schemas before 0018, and what a restored dump may have.
    """
    if connection.dialect.name == "sqlite":
        return []
    query = sa.text(
        "SELECT table_name FROM information_schema.columns"
        " WHERE table_schema = DATABASE() AND collation_name <> :exact"
        " UNION SELECT table_name FROM information_schema.tables"
        " WHERE table_schema = DATABASE() AND table_collation <> :exact"
    )
    found = connection.scalars(query, {"exact": exact_collation(connection.dialect)})
    return sorted({*found} & metadata.tables.keys())


def make_exact(connection: sa.Connection) -> None:
    """Convert our tables whose texts are not stored and compared exactly.

    No two rows that were told apart become equal. MariaDB changes most tables while others write
    them, and copies those whose primary key has a text.
    """
    collation = exact_collation(connection.dialect)
    for table in inexact_tables(connection):
        change = f"CONVERT TO CHARACTER SET utf8mb4 COLLATE {collation}"
        connection.execute(sa.text(f"ALTER TABLE `{table}` {change}"))
