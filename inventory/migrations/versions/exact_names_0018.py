# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Texts are compared exactly on MariaDB and MySQL, as Python and SQLite compare them."""

from alembic import op

from inventory.migrations.exact_texts import make_exact

revision = "0018"
down_revision = "0017"
# It changes no column of which code of earlier schemas says how it compares.
oldest_code = "0010"


def upgrade() -> None:
    make_exact(op.get_bind())
