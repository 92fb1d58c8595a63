# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How often what makes a host eligible has changed."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


# MariaDB commits each change of a table: a sync that was killed between two of them goes on.
def upgrade() -> None:
    for table in ("compute_nodes", "services"):
        there = {column["name"] for column in sa.inspect(op.get_bind()).get_columns(table)}
        if "eligibility_revision" not in there:
            column = sa.Column(
                "eligibility_revision", sa.Integer(), nullable=False, server_default="0"
            )
            op.add_column(table, column)
