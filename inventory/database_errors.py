# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What the errors of a database mean, in words without statements and values.

DatabaseUnavailable       it did not answer, or with an error
+-- DatabaseMisconfigured the URL cannot be used, so nothing was asked
+-- TransactionLost       others wrote the same rows at every attempt
+-- StatementRefused      it refused a statement
    +-- DataRefused       it does not take a value
"""

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_db import exception
from pymysql.constants import CR, ER

# Errors of a transaction in conflict with others: a deadlock, a write that a cluster did not
# certify and, by default since MariaDB 11, a row that has changed.
_LOST = frozenset({ER.LOCK_DEADLOCK, ER.ERROR_DURING_COMMIT, ER.CHECKREAD})
# Errors of a server that has too many connections, in all or of this account.
_FULL = frozenset({ER.CON_COUNT_ERROR, 1203, ER.USER_LIMIT_REACHED})
# Errors of a connection that is lost or cannot be made. oslo.db knows them, but sees none of those
# that SQLAlchemy's inspection of tables has.
_DISCONNECTED = frozenset(
    {CR.CR_CONNECTION_ERROR, CR.CR_CONN_HOST_ERROR, CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST}
)
# Errors of a server that is to take statements again soon.
_AWAY = _FULL | {ER.SERVER_SHUTDOWN}
# Errors of an account that lacks a right on a database, a table, a column or a routine.
_DENIED = frozenset(
    {
        ER.DBACCESS_DENIED_ERROR,
        ER.TABLEACCESS_DENIED_ERROR,
        ER.COLUMNACCESS_DENIED_ERROR,
        ER.SPECIFIC_ACCESS_DENIED_ERROR,
    }
)
# Errors of a value that a column does not take.
_REFUSED = frozenset(
    {
        ER.WARN_DATA_OUT_OF_RANGE,
        ER.WARN_DATA_TRUNCATED,
        ER.TRUNCATED_WRONG_VALUE,
        ER.TRUNCATED_WRONG_VALUE_FOR_FIELD,
        ER.INVALID_CHARACTER_STRING,
        ER.DATA_TOO_LONG,
    }
)
GONE = (exception.DBConnectionError, exception.DBNonExistentDatabase)
# What _run() or its callers handle; the text of any other error has the statement and its values.
_HANDLED = (*GONE, exception.DBDuplicateEntry)
# Errors of the server, not of the statement.
_OF_THE_SERVER = (sa.exc.OperationalError, sa.exc.InternalError, sa.exc.InterfaceError)
OF_A_STATEMENT = (exception.DBError, exception.DBInvalidUnicodeParameter, sa.exc.DBAPIError)


class DatabaseUnavailable(Exception):
    """The database did not answer, or with an error; reason is for operators, brief for tenants."""

    prefix = "the database is not available: "
    brief = "does not answer"

    def __init__(self, reason: str) -> None:
        super().__init__(self.prefix + reason)
        self.reason = reason


class DatabaseMisconfigured(DatabaseUnavailable):
    """The URL of the database cannot be used; reason names the option and its file."""

    prefix = ""


class TransactionLost(DatabaseUnavailable):
    """Other transactions wrote the same rows at every attempt."""

    prefix = "the database is too busy: "
    brief = "is too busy; try again later"


class StatementRefused(DatabaseUnavailable):
    """The database refused a statement, as with a value that a column cannot hold."""

    prefix = "the database refused a statement: "
    brief = "refused what the request needs"


class DataRefused(StatementRefused):
    """The database does not take a value; the text names the column, not the rest of the row."""

    prefix = "the database refuses a value: "


def translated(error: Exception) -> Exception:
    """Return the error to raise in place of one of oslo.db or SQLAlchemy."""
    if isinstance(error, sa.exc.TimeoutError):
        return DatabaseUnavailable(
            "all connections of this process are in use: raise [database] max_pool_size, or send"
            f" fewer requests at the same time ({message_of(error)})"
        )
    number, cause = _number(error), getattr(error, "inner_exception", None) or error
    if number in _LOST or isinstance(error, exception.DBDeadlock):
        lost: Exception = exception.DBDeadlock(error)
        return lost
    if number in _DISCONNECTED:
        gone: Exception = exception.DBConnectionError(error)
        return gone
    if number in _DENIED:
        return DatabaseUnavailable(
            f"the account of [database] connection lacks a right: {message_of(error)}"
        )
    if isinstance(error, exception.DBInvalidUnicodeParameter):
        return DataRefused("a text contains half of a character (a lone surrogate of UTF-16)")
    if is_refusal(error):
        return DataRefused(message_of(error))
    # Errors that oslo.db has a class for are raised as they are.
    is_named = isinstance(error, exception.DBError) and type(error) is not exception.DBError
    if number in _FULL or (isinstance(cause, _OF_THE_SERVER) and not is_named):
        return DatabaseUnavailable(message_of(error))
    return error if isinstance(error, _HANDLED) else StatementRefused(message_of(error))


def execute_each(
    connection: sa.Connection, statement: sa.Insert | sa.Update, rows: Sequence[Mapping[str, Any]]
) -> list[tuple[Mapping[str, Any], str]]:
    """Execute a statement for many rows; return those that the database refuses, with the reason.

    A refused row costs no other one anything.
    """
    try:
        with connection.begin_nested():
            connection.execute(statement, rows)
    except OF_A_STATEMENT as error:
        if not is_refusal(error):
            raise
        if len(rows) == 1:
            return [(rows[0], message_of(error))]
        return [refused for row in rows for refused in execute_each(connection, statement, [row])]
    return []


def is_refusal(error: Exception) -> bool:
    """Return whether an error of a statement is about its values, so that others may go through."""
    of_values = (exception.DBDataError, exception.DBInvalidUnicodeParameter)
    return isinstance(error, of_values) or _number(error) in _REFUSED


def is_away(error: Exception) -> bool:
    """Return whether an error says that the server takes no statements for the time being."""
    return _number(error) in _AWAY


def _number(error: Exception) -> int | None:
    """Return the number of an error of the server."""
    original = getattr(getattr(error, "inner_exception", None) or error, "orig", None)
    number = original.args[0] if original is not None and original.args else None
    return number if isinstance(number, int) else None


def message_of(error: Exception) -> str:
    """Return what the database said, without the statement and its values."""
    cause = getattr(error, "inner_exception", None) or error
    original = getattr(cause, "orig", None) or cause
    return " ".join(str(original).split())
