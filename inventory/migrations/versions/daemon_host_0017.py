# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The name of the daemon that sends the heartbeats of a service."""

import sqlalchemy as sa

from inventory.migrations.steps import add_columns
from inventory.tables import NAME

revision = "0017"
down_revision = "0016"
# It only adds a column, which daemons of earlier schemas leave as they are.
oldest_code = "0010"


def upgrade() -> None:
    add_columns("services", sa.Column("daemon_host", NAME))
