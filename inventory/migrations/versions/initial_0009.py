# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""All tables; the steps up to this number were never in a release.

A new database has no history to repeat: it gets the tables of today, and each later step finds its
part done. Upgraded databases get the same from the steps.
"""

from alembic import op

from inventory.tables import metadata

revision = "0009"
down_revision = None
# What databases say that were made before this step replaced the ones before it.
oldest_code = "0006"


def upgrade() -> None:
    connection = op.get_bind()
    for table in metadata.sorted_tables:
        table.create(connection, checkfirst=True)
        # Each by itself, since a sync may be killed between a table and its index.
        for index in table.indexes:
            index.create(connection, checkfirst=True)
