# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Reservations that start later, and may have places that others hold until then."""

import sqlalchemy as sa

from inventory.migrations.steps import add_columns, add_index
from inventory.tables import MOMENT, UUID

revision = "0015"
down_revision = "0014"
# It only adds, and code of 0010 counts a place as it counts a claim.
oldest_code = "0010"


def upgrade() -> None:
    add_columns("reservations", sa.Column("starts_at", MOMENT))
    add_columns("allocations", sa.Column("next_reservation_uuid", UUID))
    add_index("allocations", "next_reservation_uuid")
