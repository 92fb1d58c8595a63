# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The schema: created and upgraded by alembic, checked when a daemon starts.

Each step names in oldest_code the oldest code that works with what it leaves behind, by the
revision that this code needs. db sync writes the newest of these into the database, so that code
which does not know the later steps can tell whether it may start there.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa
from oslo_config import cfg
from sqlalchemy.schema import CreateTable

from inventory import mysql_pool
from inventory.command_engine import single_engine
from inventory.dialects import exact_collation
from inventory.engine import Database, open_database, start_patience
from inventory.migrations import exact_texts, sync_lock
from inventory.tables import leases, metadata

# The newest of versions/, said here since alembic takes a sixth of a daemon's start to import.
HEAD = "0018"
# The oldest schema that db sync upgrades, made by the one step that creates tables.
FIRST = "0009"
# The schema of the first release.
FIRST_RELEASED = "0010"
# Not alembic's usual name: a database that holds Nova's tables has one of that name already.
VERSION_TABLE = "berthmaster_version"
# Beside alembic's revision in its table, so that one row says all. Earlier releases have not
# written it.
OLDEST_CODE = "oldest_code"
# Seconds that a change of a table may take: a large table is copied for minutes.
_CHANGE_TIMEOUT = 86_400


class SchemaError(Exception):
    """The database's schema is not one that this release works with."""


class Schema(NamedTuple):
    """The revision of a schema, None before the first sync, and the oldest code that may use it."""

    revision: str | None
    oldest_code: str | None = None

    def refusal(self, code: str) -> str:
        """Return why code of a revision cannot use the schema and what cures it, "" if it can.

        Revisions are numbers of four digits, which have the order of their texts.
        """
        if self.revision is None:
            return "the database has no tables of Berthmaster yet: run 'berthmaster db sync' once"
        found = f"the database's schema is at {self.revision}"
        if self.revision < FIRST:
            return (
                f"{found}, made before the first release, too old for 'db sync': give [database]"
                " connection an empty database and run 'berthmaster db sync', or keep the rows as"
                " doc/source/admin/upgrading.rst says"
            )
        if self.revision < code:
            needs, cure = f"{found}, this release needs {code}", "run 'berthmaster db sync'"
            if self.revision < FIRST_RELEASED:
                return f"{needs}: stop all daemons, then {cure} of this release"
            return f"{needs}: {cure} of this release; daemons of the release before go on meanwhile"
        # Unknown for a later schema: the release that made it did not say.
        oldest = self.oldest_code or self.revision
        if code < oldest:
            return (
                f"{found} and works with releases of schema {oldest} and later, but this release"
                f" has schema {code}: install a later release on this machine"
            )
        return ""


def needs_stop(revision: str | None) -> bool:
    """Return whether no daemon may run while the schema of this revision is upgraded."""
    return revision is not None and FIRST <= revision < FIRST_RELEASED


def sync(database: Database) -> tuple[str | None, str]:
    """Upgrade the schema, one process at a time; return the revisions before and after."""
    from alembic import command

    with _exclusive(database) as connection:
        before = read_schema(connection)
        if before.revision is not None and not FIRST <= before.revision <= HEAD:
            # Too old, or a later release was here: its steps stay, also where all daemons go back.
            _check(before)
            return before.revision, before.revision
        config = _config()
        config.attributes["connection"] = connection
        oldest_code = _oldest_code(config)
        if before.revision is not None:
            # Before the steps: code that starts meanwhile must not miss what they take away.
            _write_oldest_code(connection, oldest_code)
        command.upgrade(config, "head")
        after = revision(connection)
        if after is None:
            raise SchemaError("alembic left no revision behind")
        if before.revision is None:
            _write_oldest_code(connection, oldest_code)
        # Also tables of this schema, as a restored dump may have them.
        exact_texts.make_exact(connection)
        return before.revision, after


def check(database: Database) -> None:
    """Raise SchemaError unless this release works with the schema."""
    schema, inexact = database.read(
        lambda connection: (read_schema(connection), exact_texts.inexact_tables(connection))
    )
    _check(schema)
    if inexact:
        them = "this table" if len(inexact) == 1 else "these tables"
        raise SchemaError(
            f"the character set or collation of {', '.join(inexact)} lacks characters, or takes"
            " different names for equal: run 'berthmaster db sync', which converts"
            f" {them} to {exact_collation(database.engine.dialect)}"
        )


def _check(schema: Schema) -> None:
    refusal = schema.refusal(HEAD)
    if refusal:
        raise SchemaError(refusal)


@contextmanager
def checked_database(conf: cfg.ConfigOpts) -> Iterator[Database]:
    """Yield the configured database, which is waited for as a daemon does that starts.

    Raises DatabaseUnavailable and SchemaError.
    """
    with closing(open_database(conf)) as database:
        with database.waiting(start_patience(conf)):
            check(database)
        yield database


@contextmanager
def _exclusive(database: Database) -> Iterator[sa.Connection]:
    """Yield a connection while other syncs wait; raises SchemaError if they do so for too long."""
    if database.engine.dialect.name == "sqlite":
        with database.engine.connect() as connection:
            connection.execution_options(berthmaster_writes=True)
            with connection.begin():
                _refuse_foreign_tables(connection)
                yield connection
        return
    database.write(_make_leases)
    try:
        with sync_lock.held(database), _patient(database) as connection:
            yield connection
    except sync_lock.SyncUnderWay as error:
        raise SchemaError(str(error)) from error


@contextmanager
def _patient(database: Database) -> Iterator[sa.Connection]:
    """Yield a connection on which a statement may take as long as a change of a table does."""
    url = database.engine.url.update_query_dict({"read_timeout": str(_CHANGE_TIMEOUT)})
    engine = single_engine(
        url.render_as_string(hide_password=False),
        connection_parameters=f"plugin={mysql_pool.PLUGIN}",
    )
    with closing(Database(engine)), engine.connect() as connection:
        connection.execution_options(berthmaster_writes=True)
        yield connection
        connection.commit()


def _make_leases(connection: sa.Connection) -> None:
    """Make the table that syncs exclude each other by; being the first one, it marks ours."""
    _refuse_foreign_tables(connection)
    connection.execute(CreateTable(leases, if_not_exists=True))


def _config() -> Any:
    from alembic.config import Config

    config = Config()
    # alembic interpolates percent signs.
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    return config


def _oldest_code(config: Any) -> str:
    """Return the oldest code that works with all steps: what one takes away stays away."""
    from alembic.script import ScriptDirectory

    steps = ScriptDirectory.from_config(config).walk_revisions()
    return max(str(step.module.oldest_code) for step in steps)


def _write_oldest_code(connection: sa.Connection, oldest_code: str) -> None:
    """Let code of other releases read which is the oldest that may start."""
    if not _has_oldest_code(connection):
        column = f"ADD COLUMN {OLDEST_CODE} VARCHAR(32)"
        connection.execute(sa.text(f"ALTER TABLE {VERSION_TABLE} {column}"))
    statement = f"UPDATE {VERSION_TABLE} SET {OLDEST_CODE} = :oldest_code"
    connection.execute(sa.text(statement), {"oldest_code": oldest_code})


def _has_oldest_code(connection: sa.Connection) -> bool:
    columns = sa.inspect(connection).get_columns(VERSION_TABLE)
    return OLDEST_CODE in {column["name"] for column in columns}


def revision(connection: sa.Connection) -> str | None:
    """Return the schema's revision, None before the first sync."""
    return read_schema(connection).revision


def read_schema(connection: sa.Connection) -> Schema:
    """Return what the database says of its schema."""
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return Schema(None)
    names = ["version_num", *([OLDEST_CODE] if _has_oldest_code(connection) else [])]
    row = connection.execute(sa.text(f"SELECT {', '.join(names)} FROM {VERSION_TABLE}")).first()
    # alembic makes its table before the first step.
    return Schema(None) if row is None else Schema(*row)


def _refuse_foreign_tables(connection: sa.Connection) -> None:
    there = set(sa.inspect(connection).get_table_names())
    taken = sorted(there & metadata.tables.keys())
    if taken and not there & {VERSION_TABLE, leases.name}:
        raise SchemaError(
            f"the database has tables of another program ({', '.join(taken)}), perhaps Nova's: "
            "give Berthmaster a database of its own in [database] connection"
        )
