# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A database of Nova's: read in whatever schema its release has, and never written."""

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeVar

import sqlalchemy as sa

from inventory import dialects

T = TypeVar("T")

# A line of SHOW GRANTS, and the rights in it that change rows or tables.
_GRANT = re.compile(r"GRANT (?P<rights>.+?) ON (?P<database>\*|`[^`]*`)\.\S+ TO ")
_WRITING = frozenset({"ALL PRIVILEGES", "INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "ALTER"})


class NovaDatabaseUnavailable(Exception):
    """A database of Nova's cannot be read; reason says why in one line, without its account."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"Nova's database {name} cannot be read: {reason}")
        self.name = name
        self.reason = reason


class NovaTable:
    """A table as it is in this release of Nova."""

    def __init__(self, table: sa.Table) -> None:
        self._table = table
        self.c = table.c

    def select(self, *names: str) -> sa.Select[Any]:
        """Return the query for these columns; one that this release lacks is None in all rows."""
        columns = [self.c[name] if name in self.c else sa.null().label(name) for name in names]
        return sa.select(*columns).select_from(self._table)

    def live(self, *names: str) -> sa.Select[Any]:
        """Return select(), without rows that Nova has marked as deleted."""
        query = self.select(*names)
        return query.where(self.c.deleted == 0) if "deleted" in self.c else query


class NovaDatabase:
    """One database, by the name that operators know it by. Threads may share it."""

    def __init__(self, name: str, url: str) -> None:
        """Connect to nothing yet; raises NovaDatabaseUnavailable for an invalid URL."""
        self.name = name
        self._tables: dict[str, NovaTable] = {}
        try:
            parsed = sa.make_url(url)
            self._engine = sa.create_engine(
                parsed, pool_pre_ping=True, connect_args=dialects.timeouts(parsed)
            )
        # Without the error's text, which quotes the URL and so its password.
        except (ImportError, sa.exc.NoSuchModuleError) as error:
            raise NovaDatabaseUnavailable(
                name, f"the URL names a driver that is not installed: {error}"
            ) from None
        except (sa.exc.ArgumentError, ValueError):
            raise NovaDatabaseUnavailable(name, "the URL cannot be read") from None
        if self._engine.dialect.name != "sqlite":
            sa.event.listen(self._engine, "connect", _refuse_writes)

    def read(self, work: Callable[[sa.Connection], T]) -> T:
        """Return work(connection), run in one consistent transaction that cannot write.

        Raises NovaDatabaseUnavailable.
        """
        try:
            with self._engine.connect() as connection, connection.begin():
                return work(connection)
        except sa.exc.NoSuchTableError as error:
            reason = (
                f"there is no table {error}: this is not a database of a Nova release that"
                " Berthmaster knows"
            )
            raise NovaDatabaseUnavailable(self.name, reason) from error
        except sa.exc.DBAPIError as error:
            reason = " ".join(str(error.orig).split())
            raise NovaDatabaseUnavailable(self.name, reason) from error

    def rows(self, table: str, *names: str) -> Sequence[sa.Row[Any]]:
        """Return these columns of all rows of a table that Nova has not marked as deleted."""
        return self.read(
            lambda connection: connection.execute(self.table(connection, table).live(*names)).all()
        )

    def fingerprint(self, connection: sa.Connection, name: str, *columns: str) -> object:
        """Return a value that changes with these columns of any row, and with which rows there are.

        The server makes it, so that a table that hardly ever changes costs its reader nothing.
        """
        query = self.table(connection, name).live(*columns)
        if self._engine.dialect.name == "sqlite":
            return tuple(sorted(map(repr, connection.execute(query).all())))
        whole = query.with_only_columns(_digest(query), maintain_column_froms=True)
        return connection.execute(whole).scalar_one()

    def fingerprints(
        self, connection: sa.Connection, name: str, *columns: str
    ) -> Mapping[str, object]:
        """Return fingerprint() of the rows of each host, without rows that name none."""
        table = self.table(connection, name)
        query = table.live(*columns).where(table.c.host.is_not(None))
        if self._engine.dialect.name == "sqlite":
            found = defaultdict(list)
            for *row, host in connection.execute(query.add_columns(table.c.host)):
                found[host].append(repr(row))
            return {host: tuple(sorted(rows)) for host, rows in found.items()}
        by_host = query.with_only_columns(
            table.c.host, _digest(query), maintain_column_froms=True
        ).group_by(table.c.host)
        return {row[0]: row[1] for row in connection.execute(by_host)}

    def table(self, connection: sa.Connection, name: str) -> NovaTable:
        """Return a table as the database describes it, which is asked once."""
        if name not in self._tables:
            found = sa.Table(name, sa.MetaData(), autoload_with=connection, resolve_fks=False)
            self._tables[name] = NovaTable(found)
        return self._tables[name]

    def may_write(self) -> bool:
        """Return whether its account has the right to change this database, which is not needed."""
        if self._engine.dialect.name == "sqlite":
            return True
        grants = self.read(lambda each: each.exec_driver_sql("SHOW GRANTS").scalars().all())
        return any(allows_writing(grant, self.schema or "") for grant in grants)

    @property
    def place(self) -> str:
        """The server and the name of the database there, without the account."""
        url = self._engine.url
        server = url.query.get("unix_socket") or f"{url.host or 'localhost'}:{url.port or 3306}"
        return f"{server}/{url.database}"

    def forget_schema(self) -> None:
        """Ask for the tables again, as after an upgrade of Nova."""
        self._tables.clear()

    @property
    def schema(self) -> str | None:
        """The name of the database on its server."""
        return self._engine.url.database

    def close(self) -> None:
        self._engine.dispose()


def _digest(query: sa.Select[Any]) -> sa.ColumnElement[str]:
    """Return a text that differs when any of the query's rows does, or which there are.

    One text for each of thousands of hosts is cheaper to read than three numbers.
    """
    parts = [sa.func.coalesce(each, "\\N") for each in query.selected_columns]
    row = sa.func.crc32(sa.func.concat_ws("\0", *parts))
    return sa.func.concat_ws(":", sa.func.count(), sa.func.sum(row), sa.func.bit_xor(row))


def allows_writing(grant: str, database: str) -> bool:
    """Return whether a line of SHOW GRANTS has a right to change a database."""
    found = _GRANT.match(grant)
    if found is None or _WRITING.isdisjoint(found["rights"].split(", ")):
        return False
    # There % stands for any characters, and so may _, which names of Nova's databases have.
    pattern = found["database"].strip("`").replace("\\_", "_").replace("%", "*")
    return fnmatchcase(database, pattern)


def _refuse_writes(connection: Any, _record: object) -> None:
    """Have the server refuse writes, whatever the account may do."""
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION READ ONLY")
