# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""${message}"""

import sqlalchemy as sa
from alembic import op

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
# The oldest code that works with this; see the upgrading page for what a step may take away.
oldest_code = 


def upgrade() -> None:
    ${upgrades if upgrades else "pass"}
