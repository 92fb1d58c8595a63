# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The schema: created and upgraded by alembic, checked when a daemon starts."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from oslo_config import cfg

from inventory.decision_tables import metadata
from inventory.engine import Database, open_database

# Not alembic's usual name: a database that holds Nova's tables has one of that name already.
VERSION_TABLE = "berthmaster_version"
LOCK = "berthmaster db sync"
LOCK_WAIT = 60


class SchemaError(Exception):
    """The database's schema is not the one this release works with."""


def sync(database: Database) -> tuple[str | None, str]:
    """Bring the schema to this release; return the revisions before and after.

    Several at a time are safe: one does the work and the others find it done.
    """
    with _exclusive(database) as connection:
        before = _revision(connection)
        if before is None:
            _refuse_foreign_tables(connection)
        config = _config()
        config.attributes["connection"] = connection
        try:
            command.upgrade(config, "head")
        # There is no way from a revision that it does not know.
        except CommandError:
            raise SchemaError(_other_than_wanted(before)) from None
        after = _revision(connection)
        if after is None:
            raise SchemaError("alembic left no revision behind")
        return before, after


def check(database: Database) -> None:
    """Raise SchemaError unless the schema is exactly this release's."""
    found = database.read(_revision)
    if found is None:
        raise SchemaError(
            "the database has no tables of Berthmaster yet: run 'berthmaster db sync' once"
        )
    if found != _wanted():
        raise SchemaError(_other_than_wanted(found))


@contextmanager
def checked_database(conf: cfg.ConfigOpts) -> Iterator[Database]:
    """Yield the configured database for a short use, its schema checked; close it afterwards.

    Raises DatabaseUnavailable and SchemaError.
    """
    with closing(open_database(conf)) as database:
        check(database)
        yield database


def revision(database: Database) -> str | None:
    """Return the schema's revision, None before the first sync."""
    return database.read(_revision)


@contextmanager
def _exclusive(database: Database) -> Iterator[sa.Connection]:
    """Yield a connection that no other db sync has at the same time.

    SQLite's write lock, taken at the beginning, is enough. MySQL ends a transaction at every
    change of the schema, so a lock of its own is held around all of them.
    """
    with database.engine.connect() as connection:
        connection.execution_options(berthmaster_writes=True)
        if connection.dialect.name == "sqlite":
            with connection.begin():
                yield connection
            return
        if not connection.scalar(sa.select(sa.func.get_lock(LOCK, LOCK_WAIT))):
            raise SchemaError(f"another db sync has been at work for {LOCK_WAIT} s; try again")
        try:
            yield connection
            connection.commit()
        finally:
            connection.scalar(sa.select(sa.func.release_lock(LOCK)))


def _config() -> Config:
    config = Config()
    # alembic takes a percent sign for the beginning of an interpolation.
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    return config


def _wanted() -> str | None:
    head: str | None = ScriptDirectory.from_config(_config()).get_current_head()
    return head


def _other_than_wanted(found: str | None) -> str:
    return (
        f"the database's schema is at {found}, this release needs {_wanted()}: "
        "run 'berthmaster db sync' with the newest release installed"
    )


def _revision(connection: sa.Connection) -> str | None:
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    revision: str | None = context.get_current_revision()
    return revision


def _refuse_foreign_tables(connection: sa.Connection) -> None:
    taken = sorted(set(sa.inspect(connection).get_table_names()) & metadata.tables.keys())
    if taken:
        raise SchemaError(
            f"the database has tables of another program ({', '.join(taken)}), perhaps Nova's: "
            "give Berthmaster a database of its own in [database] connection"
        )
