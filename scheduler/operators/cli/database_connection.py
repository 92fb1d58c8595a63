# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Open the database for a command: soon say what is waited for, and give up in time.

A daemon waits for its database for minutes; a user at a terminal wants to know.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from time import monotonic, sleep

import sqlalchemy as sa
from cliff.app import App
from oslo_config import cfg
from oslo_db.exception import DBConnectionError, DBError

from inventory import migrations
from inventory.audit_log import ACTOR, Actor
from inventory.command_engine import single_engine
from inventory.database_errors import DatabaseMisconfigured, DatabaseUnavailable, message_of
from inventory.engine import Database, open_database
from inventory.migrations import SchemaError
from scheduler.operators.cli.arguments import DATABASE_TIMEOUT
from scheduler.operators.cli.waiting import GRACE, NOTICE_AFTER, in_background, notice

# Seconds between two attempts.
RETRY_INTERVAL = 0.5
# Seconds after which a database counts as silent that another service may wait for.
SILENCE = 2.0
ADVICE = (
    "check that it runs and can be reached from here, or wait longer with berthmaster"
    " --database-timeout"
)


@contextmanager
def checked_database(app: App) -> Iterator[Database]:
    """Yield the database with its schema checked; errors name the database."""
    with open_unchecked(app) as database:
        with database.waiting(app.options.database_timeout or DATABASE_TIMEOUT):
            migrations.check(database)
        yield database


@contextmanager
def open_unchecked(app: App, is_new: bool = False) -> Iterator[Database]:
    """Yield the database whatever its schema; create a file for SQLite only if it may be new.

    Without the intended --config-file it is another database than meant, so errors name it.
    """
    conf: cfg.ConfigOpts = app.conf
    url = _url(conf)
    try:
        if url is not None and not is_new:
            _check_file(url)
        with closing(_open_in_time(conf, url, app)) as database:
            # All that the command changes is logged.
            actor = Actor.of_process(app.command_name, app.options.operator)
            database.engine.update_execution_options(**{ACTOR: actor})
            yield database
    # Its text names the option already.
    except DatabaseMisconfigured:
        raise
    except DatabaseUnavailable as error:
        # One that refuses a value, or is too busy, is available.
        raise type(error)(f"{error.reason}{_setting(url)}") from error
    except SchemaError as error:
        raise SchemaError(f"{error}{_setting(url)}") from error
    # Their own text is the statement with its values, and a link.
    except (DBError, sa.exc.SQLAlchemyError) as error:
        raise DatabaseUnavailable(f"{message_of(error)}{_setting(url)}") from error


def silence_of(app: App) -> str:
    """Return a sentence about a database that does not answer, with a space before it, or "".

    It says so of no other database: whoever else has not answered may wait for this one.
    """
    configured = app.options.database_timeout
    app.options.database_timeout = configured or SILENCE
    try:
        with open_unchecked(app):
            return ""
    except DatabaseUnavailable as error:
        # One that refuses this command answers.
        is_silent = any(
            isinstance(each, DBConnectionError | TimeoutError) for each in _causes(error)
        )
        text = f" The database, which the daemon needs, does not answer either: {error.reason}"
        return text if is_silent else ""
    # Of a database that this command cannot use at all, nothing is known.
    except Exception:
        return ""
    finally:
        app.options.database_timeout = configured


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _url(conf: cfg.ConfigOpts) -> sa.URL | None:
    """Return the URL of the configured database, None for one that cannot be parsed."""
    try:
        return sa.make_url(conf.database.connection)
    except (ValueError, sa.exc.ArgumentError):
        return None


def _setting(url: sa.URL | None) -> str:
    """Return the setting of the database without passwords, as the end of a sentence."""
    if url is None:
        return ""
    return f" ([database] connection is {url.set(query={}).render_as_string(hide_password=True)})"


def _check_file(url: sa.URL) -> None:
    """Raise SchemaError where SQLite would create a file."""
    path = url.database if url.get_backend_name() == "sqlite" else None
    # A URI, which SQLite reads as well, says itself whether the file may be new.
    if path and path != ":memory:" and not path.startswith("file:") and not Path(path).exists():
        raise SchemaError(f"there is no database {path} yet: run 'berthmaster db sync' once")


def _open_in_time(conf: cfg.ConfigOpts, url: sa.URL | None, app: App) -> Database:
    """Return the database, opened within --database-timeout.

    Without that option it is tried as long as the configuration says, but not more than 10 s.
    """
    if url is None or url.get_backend_name() == "sqlite":
        return open_database(conf, single_engine)
    timeout: float | None = app.options.database_timeout
    limit, began = timeout or DATABASE_TIMEOUT, monotonic()
    retries = conf.database.max_retries
    configured = retries * conf.database.retry_interval if retries >= 0 else limit
    until = began + (limit if timeout else min(limit, configured))
    socket = url.query.get("unix_socket")
    server = str(socket) if socket else f"{url.host or 'localhost'}:{url.port or 3306}"
    # A server that accepts connections and does not answer would block this thread.
    answer = in_background(lambda: _retry(conf, until), Database.close)
    try:
        with notice(app, f"the database at {server}", min(NOTICE_AFTER, limit)):
            return answer.result(max(0, began + limit + GRACE - monotonic()))
    except TimeoutError as error:
        answer.cancel()
        text = f"no answer from {server} within {limit:g} s; {ADVICE}"
        raise DatabaseUnavailable(text) from error


def _retry(conf: cfg.ConfigOpts, until: float) -> Database:
    """Return the database, or raise the error of the last attempt until a point in time."""
    while True:
        try:
            return open_database(conf, single_engine)
        except DatabaseUnavailable as error:
            if not isinstance(error.__cause__, DBConnectionError):
                raise
            if monotonic() + RETRY_INTERVAL > until:
                raise DatabaseUnavailable(f"{error.reason}; {ADVICE}") from error
        sleep(RETRY_INTERVAL)
