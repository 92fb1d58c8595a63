# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How a command opens the database: it says soon what it waits for, and gives up in time.

A daemon waits for its database for minutes; who has typed a command wants to know.
"""

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread
from time import monotonic, sleep

import sqlalchemy as sa
from cliff.app import App
from oslo_config import cfg
from oslo_db.exception import DBConnectionError

from inventory import migrations
from inventory.engine import Database, DatabaseUnavailable, open_database
from inventory.migrations import SchemaError

# Seconds: until a command gives up, until it says what it waits for, between two attempts.
TIMEOUT = 10.0
FIRST_WORD = 0.7
PAUSE = 0.5
CURE = (
    "see that it runs and can be reached from here, or wait longer with berthmaster"
    " --database-timeout"
)


@contextmanager
def database_of(app: App) -> Iterator[Database]:
    """Yield the database, its schema checked; say which one it is if it cannot be used."""
    with unchecked_database(app) as database:
        migrations.check(database)
        yield database


@contextmanager
def unchecked_database(app: App, is_new: bool = False) -> Iterator[Database]:
    """Yield the database whatever its schema; only if it may be new is a file made for SQLite.

    Who forgets --config-file has another one than is meant, so errors name it.
    """
    conf: cfg.ConfigOpts = app.conf
    url = _url(conf)
    try:
        if url is not None and not is_new:
            _check_file(url)
        with closing(_in_time(conf, url, app)) as database:
            yield database
    except DatabaseUnavailable as error:
        raise DatabaseUnavailable(f"{error.reason}{_called(url)}") from error
    except SchemaError as error:
        raise SchemaError(f"{error}{_called(url)}") from error


def _url(conf: cfg.ConfigOpts) -> sa.URL | None:
    """Return the URL of the configured database, None for one that cannot be read."""
    try:
        return sa.make_url(conf.database.connection)
    except (ValueError, sa.exc.ArgumentError):
        return None


def _called(url: sa.URL | None) -> str:
    """Return which database it is, without passwords, as the end of a sentence."""
    if url is None:
        return ""
    return f" ([database] connection is {url.set(query={}).render_as_string(hide_password=True)})"


def _check_file(url: sa.URL) -> None:
    """Raise SchemaError where SQLite would make a new file."""
    path = url.database if url.get_backend_name() == "sqlite" else None
    # A URI, which SQLite reads as well, says itself whether the file may be new.
    if path and path != ":memory:" and not path.startswith("file:") and not Path(path).exists():
        raise SchemaError(f"there is no database {path} yet: run 'berthmaster db sync' once")


def _in_time(conf: cfg.ConfigOpts, url: sa.URL | None, app: App) -> Database:
    """Return the database, opened before the time is over.

    That is --database-timeout. Without one, it is tried as long as the configuration says, but not
    for more than 10 s.
    """
    if url is None or url.get_backend_name() == "sqlite":
        return open_database(conf)
    timeout: float | None = app.options.database_timeout
    limit, began = timeout or TIMEOUT, monotonic()
    retries = conf.database.max_retries
    configured = retries * conf.database.retry_interval if retries >= 0 else limit
    until = began + (limit if timeout else min(limit, configured))
    answer: Future[Database] = Future()
    # A server that accepts connections and says nothing holds up whoever asks it.
    Thread(target=_open, args=(conf, until, answer), daemon=True).start()
    try:
        return answer.result(min(FIRST_WORD, limit))
    except TimeoutError:
        app.stderr.write(f"waiting for the database at {_place(url)} ...\n")
        app.stderr.flush()
    try:
        # A little more: whoever tries until then knows why it was in vain.
        return answer.result(max(0, began + limit + PAUSE - monotonic()))
    except TimeoutError:
        answer.cancel()
        told = f"no answer from {_place(url)} within {limit:g} s; {CURE}"
        raise DatabaseUnavailable(told) from None


def _open(conf: cfg.ConfigOpts, until: float, answer: Future[Database]) -> None:
    """Answer with the database, or with the error after attempts up to a moment."""
    try:
        database = _opened(conf, until)
    # Whoever waits for the answer is to raise it, whatever it is.
    except Exception as error:
        if answer.set_running_or_notify_cancel():
            answer.set_exception(error)
        return
    if answer.set_running_or_notify_cancel():
        answer.set_result(database)
    else:
        database.close()


def _opened(conf: cfg.ConfigOpts, until: float) -> Database:
    while True:
        try:
            return open_database(conf, max_retries=1, retry_interval=0)
        except DatabaseUnavailable as error:
            if not isinstance(error.__cause__, DBConnectionError):
                raise
            if monotonic() + PAUSE > until:
                raise DatabaseUnavailable(f"{error.reason}; {CURE}") from error
        sleep(PAUSE)


def _place(url: sa.URL) -> str:
    """Return where a server is, without what it is asked with."""
    socket = url.query.get("unix_socket")
    return str(socket) if socket else f"{url.host or 'localhost'}:{url.port or 3306}"
