# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The database's clock as terms of queries, since the clocks of machines are never compared."""

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.expression import FunctionElement


class utc_now(FunctionElement[datetime]):
    """The database's clock in UTC and whole seconds: the clocks of machines are never compared."""

    type: sa.types.TypeEngine[Any] = sa.DateTime()
    inherit_cache = True
    mysql = "UTC_TIMESTAMP()"
    # In the very form in which SQLAlchemy stores a DateTime, since SQLite compares texts.
    sqlite = "strftime('%Y-%m-%d %H:%M:%S.000000', 'now')"


class utc_moment(utc_now):
    """The same clock with fractions of a second."""

    inherit_cache = True
    mysql = "UTC_TIMESTAMP(6)"
    sqlite = "strftime('%Y-%m-%d %H:%M:%f000', 'now')"


@compiles(utc_now, "mysql")
@compiles(utc_now, "mariadb")
def _utc_now_mysql(element, compiler, **kw):  # type: ignore[no-untyped-def]
    return element.mysql


@compiles(utc_now, "sqlite")
def _utc_now_sqlite(element, compiler, **kw):  # type: ignore[no-untyped-def]
    return element.sqlite
