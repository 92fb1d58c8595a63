# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The cells of a Nova cloud and the hosts in them, as its API database maps them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import sqlalchemy as sa

from inventory.nova.database import NovaDatabase

# The cell of instances that were never placed; it has no hosts.
CELL0 = "00000000-0000-0000-0000-000000000000"


class CellTemplateError(ValueError):
    """The URL of a cell's database is a template that cannot be filled in."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell that may have hosts. database_url is as in its mapping, perhaps a template."""

    uuid: str
    name: str
    database_url: str
    is_disabled: bool


@dataclass(frozen=True, slots=True)
class CellMappings:
    """All cells but cell0, and the uuid of the cell of each host."""

    cells: Sequence[Cell]
    hosts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CellAccess:
    """How to reach the databases of cells.

    template_url fills in mappings that are templates, as [database] connection does in Nova's own
    configuration. username and password, if set, replace those of every mapping.
    """

    template_url: str | None = None
    username: str | None = None
    password: str | None = None

    def database_url(self, cell: Cell) -> str:
        """Return the URL of a cell's database; raises CellTemplateError."""
        url = self._filled_in(cell)
        if self.username is None:
            return url
        try:
            parsed = sa.make_url(url)
        # Without the error's text, which quotes the URL and so its password.
        except (sa.exc.ArgumentError, ValueError):
            raise CellTemplateError(
                f"the database URL of cell {cell.name} cannot be read"
            ) from None
        account = parsed.set(username=self.username, password=self.password)
        return account.render_as_string(hide_password=False)

    def _filled_in(self, cell: Cell) -> str:
        if "{" not in cell.database_url:
            return cell.database_url
        if self.template_url is None:
            raise CellTemplateError(
                f"the database URL of cell {cell.name} is a template: set [nova]"
                " cell_template_connection to what [database] connection is in Nova's own nova.conf"
            )
        try:
            return cell.database_url.format(**template_values(self.template_url))
        except (KeyError, IndexError, ValueError) as error:
            raise CellTemplateError(
                f"the template of the database URL of cell {cell.name} cannot be filled in: {error}"
            ) from None


def template_values(url: str) -> dict[str, str]:
    """Return what Nova puts into the URLs of cell mappings, by the names in their braces."""
    parts = urlsplit(url)
    values = {
        "scheme": parts.scheme,
        "username": parts.username,
        "password": parts.password,
        "hostname": parts.hostname,
        "port": parts.port,
        "path": parts.path.lstrip("/"),
        "query": parts.query,
        "fragment": parts.fragment,
    }
    return {name: "" if value is None else str(value) for name, value in values.items()}


def mappings_version(api: NovaDatabase) -> tuple[object, ...]:
    """Return what differs when read_mappings() would, for much less work.

    Raises NovaDatabaseUnavailable.
    """

    cells = ("cell_mappings", "uuid", "name", "database_connection", "disabled")
    hosts = ("host_mappings", "host", "cell_id")
    return api.read(lambda each: tuple(api.fingerprint(each, *table) for table in (cells, hosts)))


def read_mappings(api: NovaDatabase) -> CellMappings:
    """Return the cells and their hosts; raises NovaDatabaseUnavailable."""

    def read(connection: sa.Connection) -> CellMappings:
        cells = api.table(connection, "cell_mappings")
        names = ("id", "uuid", "name", "database_connection", "disabled")
        found = connection.execute(cells.select(*names).order_by(cells.c.id)).all()
        uuids = {row.id: row.uuid for row in found}
        hosts = connection.execute(api.table(connection, "host_mappings").select("host", "cell_id"))
        return CellMappings(
            cells=[
                Cell(row.uuid, row.name or row.uuid, row.database_connection, bool(row.disabled))
                for row in found
                if row.uuid != CELL0
            ],
            hosts={row.host: uuids[row.cell_id] for row in hosts},
        )

    return api.read(read)
