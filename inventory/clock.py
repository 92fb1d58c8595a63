# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The clock of the database, which is also the cheapest question to it."""

from datetime import UTC, datetime

import sqlalchemy as sa

from inventory.engine import Database
from inventory.tables import utc_moment


def read(database: Database) -> float:
    """Return the database's time in seconds since 1970.

    It is asked once: what is lost is not looked for again, as Database.read() does. Raises the
    errors of oslo.db and SQLAlchemy.
    """
    with database.engine.connect() as connection, connection.begin():
        now: datetime = connection.execute(sa.select(utc_moment())).scalar_one()
    return now.replace(tzinfo=UTC).timestamp()
