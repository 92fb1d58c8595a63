# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What daemons report with their heartbeats: release, start and last error."""

import sqlalchemy as sa

from inventory.migrations.steps import add_columns
from inventory.tables import NAME

revision = "0014"
down_revision = "0013"
# It only adds columns, which daemons of earlier schemas leave as they are.
oldest_code = "0010"


def upgrade() -> None:
    add_columns(
        "services",
        *(sa.Column(name, NAME) for name in ("daemon_release", "last_error")),
        *(sa.Column(name, sa.DateTime) for name in ("started_at", "reported_at", "last_error_at")),
    )
