# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The size of the instances of each saved decision."""

import sqlalchemy as sa

from inventory.migrations.steps import add_columns, add_index

revision = "0008"
down_revision = "0007"
oldest_code = "0006"


def upgrade() -> None:
    names = ("vcpus", "memory_mb", "disk_mb")
    add_columns("decisions", *(sa.Column(name, sa.BigInteger()) for name in names))
    add_index("decisions", "decided_at", *names, "instances", name="sizes")
