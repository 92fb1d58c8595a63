# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The schema: created and upgraded by alembic, checked when a daemon starts."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from oslo_config import cfg

from inventory.engine import Database, open_database
from inventory.tables import metadata

# The newest of versions/, said here since alembic takes a sixth of a daemon's start to import.
HEAD = "0009"
# Not alembic's usual name: a database that holds Nova's tables has one of that name already.
VERSION_TABLE = "berthmaster_version"
LOCK = "berthmaster db sync"
LOCK_WAIT = 60


class SchemaError(Exception):
    """The database's schema is not the one this release works with."""


def sync(database: Database) -> tuple[str | None, str]:
    """Upgrade the schema, one process at a time; return the revisions before and after."""
    from alembic import command
    from alembic.util import CommandError

    with _exclusive(database) as connection:
        before = revision(connection)
        if before is None:
            _refuse_foreign_tables(connection)
        config = _config()
        config.attributes["connection"] = connection
        try:
            command.upgrade(config, "head")
        # The revision is that of a newer release.
        except CommandError:
            raise SchemaError(_other_than_wanted(before)) from None
        after = revision(connection)
        if after is None:
            raise SchemaError("alembic left no revision behind")
        return before, after


def check(database: Database) -> None:
    """Raise SchemaError unless the schema is exactly this release's."""
    found = database.read(revision)
    if found is None:
        raise SchemaError(
            "the database has no tables of Berthmaster yet: run 'berthmaster db sync' once"
        )
    if found != HEAD:
        raise SchemaError(_other_than_wanted(found))


@contextmanager
def checked_database(conf: cfg.ConfigOpts) -> Iterator[Database]:
    """Yield the configured database; raises DatabaseUnavailable and SchemaError."""
    with closing(open_database(conf)) as database:
        check(database)
        yield database


@contextmanager
def _exclusive(database: Database) -> Iterator[sa.Connection]:
    """Yield a connection with a lock against other syncs."""
    with database.engine.connect() as connection:
        connection.execution_options(berthmaster_writes=True)
        if connection.dialect.name == "sqlite":
            with connection.begin():
                yield connection
            return
        # MySQL commits at every change of the schema: a lock by name is held around all of them.
        if not connection.scalar(sa.select(sa.func.get_lock(LOCK, LOCK_WAIT))):
            raise SchemaError(f"another db sync has been at work for {LOCK_WAIT} s; try again")
        try:
            yield connection
            connection.commit()
        finally:
            connection.scalar(sa.select(sa.func.release_lock(LOCK)))


def _config() -> Any:
    from alembic.config import Config

    config = Config()
    # alembic interpolates percent signs.
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    return config


def _other_than_wanted(found: str | None) -> str:
    return (
        f"the database's schema is at {found}, this release needs {HEAD}: "
        "run 'berthmaster db sync' with the newest release installed"
    )


def revision(connection: sa.Connection) -> str | None:
    """Return the schema's revision, None before the first sync."""
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    found: str | None = connection.scalar(sa.text(f"SELECT version_num FROM {VERSION_TABLE}"))
    return found


def _refuse_foreign_tables(connection: sa.Connection) -> None:
    taken = sorted(set(sa.inspect(connection).get_table_names()) & metadata.tables.keys())
    if taken:
        raise SchemaError(
            f"the database has tables of another program ({', '.join(taken)}), perhaps Nova's: "
            "give Berthmaster a database of its own in [database] connection"
        )
