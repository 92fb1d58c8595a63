# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Standbys of reserved places."""

import sqlalchemy as sa

from inventory.migrations.steps import add_columns
from inventory.tables import TEXT

revision = "0016"
down_revision = "0015"
# It only adds a column, which code of earlier schemas never reads.
oldest_code = "0010"


def upgrade() -> None:
    add_columns("standbys", sa.Column("place_request", TEXT))
