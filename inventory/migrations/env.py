# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What alembic runs: the migrations, on the connection that sync() hands over."""

from alembic import context

from inventory import migrations
from inventory.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=migrations.VERSION_TABLE,
    # SQLite cannot alter a table; alembic copies it instead.
    render_as_batch=True,
)
context.run_migrations()
