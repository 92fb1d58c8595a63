# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Base classes of all commands: configuration, database, calls to agents, lists and reports."""

import argparse
import getpass
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any, ClassVar, NamedTuple, TypeVar
from uuid import uuid4

from cliff.columns import FormattableColumn
from cliff.command import Command
from cliff.formatters.table import TableFormatter
from cliff.lister import Lister
from cliff.show import ShowOne
from oslo_config import cfg

from inventory.errors import some

T = TypeVar("T")


class Table(NamedTuple):
    """A table of a report: its title, the names of its columns, and its rows."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


class BaseCommand(Command):  # type: ignore[misc]  # cliff has no types
    """A command, with what it needs of its application."""

    def get_parser(self, prog_name: str) -> Any:
        parser = super().get_parser(prog_name)
        self.add_arguments(parser)
        return parser

    def add_arguments(self, parser: Any) -> None:
        """Add the arguments of the command."""

    def get_epilog(self) -> str:
        """Return the end of the help: none, for which cliff would read all installed packages."""
        return ""

    @property
    def conf(self) -> cfg.ConfigOpts:
        return self.app.conf

    @property
    def liveness_limit(self) -> float:
        """The age in seconds up to which a heartbeat counts as alive."""
        from conf.service import liveness_limit

        return liveness_limit(self.conf)

    @property
    def default_zone(self) -> str:
        zone: str = self.conf.default_availability_zone
        return zone

    def read(self, query: Callable[..., T], *arguments: Any) -> T:
        """Return query(connection, *arguments), run in a read-only transaction."""
        from scheduler.cli.database_connection import checked_database

        with checked_database(self.app) as database:
            return database.read(lambda connection: query(connection, *arguments))

    def write(self, operation: Callable[..., T], *arguments: Any) -> T:
        """Return operation(connection, *arguments), committed once."""
        from scheduler.cli.database_connection import checked_database

        with checked_database(self.app) as database:
            return database.write_once(lambda connection: operation(connection, *arguments))

    def call_agent(self, agent: str, method: str, timeout: float | None, **arguments: Any) -> Any:
        """Return the answer of an agent to one call, made in the name of the current user."""
        from scheduler.client.agent_client import AgentClient
        from scheduler.wire.context import RequestContext

        caller = RequestContext(request_id=f"req-{uuid4()}", user_name=_user(), is_admin=True)
        with closing(AgentClient(self.conf)) as client:
            return client.call(caller, agent, method, timeout, **arguments)

    def report(self, args: Any, sections: Iterable[str | Table], document: Any) -> None:
        """Print the sections, or the document for -f json."""
        if args.formatter == "json":
            json.dump(document, self.app.stdout, indent=2)
            self.app.stdout.write("\n")
        else:
            print_report(sections, self.app.stdout)


class ListCommand(BaseCommand, Lister):  # type: ignore[misc]  # cliff has no types
    """A command that prints rows."""


class ShowCommand(BaseCommand, ShowOne):  # type: ignore[misc]  # cliff has no types
    """A command that prints one row, a line for each column."""


class ReportCommand(BaseCommand):
    """A command that prints text and tables, or with -f json one document with all facts."""

    # Further ones are written by the command itself.
    formats: ClassVar[tuple[str, ...]] = ("table", "json")

    def get_parser(self, prog_name: str) -> Any:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "-f",
            "--format",
            dest="formatter",
            choices=self.formats,
            default="table",
            help="Output format: text and tables, or JSON with all facts (default: table).",
        )
        return parser


def _user() -> str:
    try:
        return getpass.getuser()
    # Some containers have neither an entry nor an environment variable for the user.
    except (KeyError, OSError):
        return str(os.getuid())


def is_for_programs(args: Any) -> bool:
    """Return whether a list is printed for programs, which get all columns."""
    return args.formatter in ("json", "yaml")


def print_report(sections: Iterable[str | Table], stream: Any) -> None:
    """Print lines of text, and tables that have rows."""
    unlimited = argparse.Namespace(max_width=0, fit_width=False, print_empty=False)
    for section in sections:
        if isinstance(section, str):
            stream.write(f"{_printable(section)}\n")
        elif section.rows:
            stream.write(f"\n{section.title}\n" if section.title else "\n")
            rows = [[_printable(each) for each in row] for row in section.rows]
            TableFormatter().emit_list(section.columns, rows, stream, unlimited)


def _printable(value: Any) -> Any:
    """Return a value without characters that control a terminal: tenants choose names and hints."""
    if not isinstance(value, str) or value.isprintable():
        return value
    return "".join(each if each.isprintable() else "?" for each in value)


class Names(FormattableColumn):  # type: ignore[misc]  # cliff has no types
    """Names, of which a table shows the first few and JSON all."""

    def human_readable(self) -> str:
        return some(self._value)


class Properties(FormattableColumn):  # type: ignore[misc]  # cliff has no types
    """Values by key, which a table shows as KEY=VALUE."""

    def human_readable(self) -> str:
        return ", ".join(f"{key}={value}" for key, value in self._value.items())


def readable(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row whose lists and mappings tables show in a readable form."""
    columns: dict[type, Any] = {list: Names, dict: Properties}
    return {
        key: columns[type(value)](value) if type(value) in columns else value
        for key, value in row.items()
    }


def one_row(row: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return a row as cliff's ShowOne expects it."""
    return list(row), list(row.values())


def list_rows(titles: Mapping[str, str], rows: Iterable[Mapping[str, Any]]) -> tuple[Any, Any]:
    """Return rows as cliff's Lister expects them, with an empty text for None.

    titles has the titles of the columns by the keys of the rows, in the order of the columns.
    """
    lines = [["" if row[key] is None else row[key] for key in titles] for row in rows]
    return list(titles.values()), lines
