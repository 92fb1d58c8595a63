# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Base classes of all commands: configuration, database, calls to agents, lists and reports."""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent import futures
from functools import partial
from typing import Any, ClassVar, NamedTuple, NoReturn, TypeVar
from uuid import uuid4

from cliff.command import Command
from cliff.lister import Lister
from cliff.show import ShowOne
from oslo_config import cfg

from conf.plain_text import escaped
from inventory.errors import some
from scheduler.operators.cli.arguments import add_watch
from scheduler.operators.cli.table_format import (
    FittedTable,
    ShellAssignments,
    Worded,
    plain,
    width_of,
    wrapped,
)
from scheduler.operators.cli.terminal import is_terminal, progress
from scheduler.operators.cli.waiting import GRACE, in_background, notice

T = TypeVar("T")
# The cursor goes to the upper left, and what is below is cleared.
_CLEAR = "\033[H\033[J"
# As without options.
BY_TERMINAL = argparse.Namespace(max_width=0, fit_width=False, print_empty=False)


class Table(NamedTuple):
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


def refuse_arguments(parser: argparse.ArgumentParser, problem: str) -> NoReturn:
    """End the program as argparse does, with the problem first and two lines of usage."""
    from conf.private_apis import arguments_of

    formatter = argparse.HelpFormatter(f"{parser.prog} [OPTION ...]", width=10_000)
    positional = [each for each in arguments_of(parser) if not each.option_strings]
    formatter.add_usage(None, positional, [])
    print(f"{parser.prog}: error: {escaped(problem)}", file=sys.stderr)
    print(formatter.format_help().strip(), file=sys.stderr)
    print(f"options: {parser.prog} --help", file=sys.stderr)
    raise SystemExit(2)


class BaseCommand(Command):  # type: ignore[misc]  # cliff has no types
    def get_parser(self, prog_name: str) -> Any:
        parser = super().get_parser(prog_name)
        self.add_arguments(parser)
        parser.error = partial(refuse_arguments, parser)
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
        from conf.service import liveness_limit

        return liveness_limit(self.conf)

    @property
    def default_zone(self) -> str:
        zone: str = self.conf.default_availability_zone
        return zone

    def read(self, query: Callable[..., T], *arguments: Any) -> T:
        """Return query(connection, *arguments), run in a read-only transaction."""
        from scheduler.operators.cli.database_connection import checked_database

        with checked_database(self.app) as database, progress(self.app, "reading the database"):
            return database.read(lambda connection: query(connection, *arguments))

    def write(self, operation: Callable[..., T], *arguments: Any) -> T:
        """Return operation(connection, *arguments), committed once."""
        from scheduler.operators.cli.database_connection import checked_database

        self.app.name_cloud()
        with checked_database(self.app) as database, progress(self.app, "writing the database"):
            return database.write_once(lambda connection: operation(connection, *arguments))

    def call_agent(self, args: Any, host: str, method: str, /, **arguments: Any) -> Any:
        """Return the answer of the agent of a host to one call, made in the name of the operator.

        args are those of add_agent(). Raise what wait_for() does, and NotFound for no such host.
        """
        from inventory.audit_log import account
        from inventory.queries.host_queries import agent_of
        from scheduler.client.agent_client import AgentClient
        from scheduler.wire.context import RequestContext
        from scheduler.wire.errors import NoAnswer

        user = self.app.options.operator or account()
        caller = RequestContext(request_id=f"req-{uuid4()}", user_name=user, is_admin=True)

        agent, timeout = args.agent or self.read(agent_of, host), args.timeout
        client = AgentClient(self.conf, is_hasty=True)

        def call() -> Any:
            return client.call(caller, agent, method, timeout, **arguments)

        try:
            return self.wait_for(f"the agent of {agent}", timeout, client, call)
        except NoAnswer as error:
            if args.agent or agent != host:
                raise
            hint = (
                f"If an agent with another name reports host {host}, name that agent with --agent."
            )
            raise type(error)(f"{error.reason} {hint}") from None

    def wait_for(self, whom: str, timeout: float, client: Any, call: Callable[[], T]) -> T:
        """Return the answer of call(), which calls an agent or a scheduler by a client in time.

        Raise what it raises, and ServiceUnavailable if there is no answer: that names what did not
        answer, which may be the database that a scheduler or an agent waits for. The client is
        closed.
        """
        from scheduler.operators.cli.database_connection import silence_of
        from scheduler.wire.errors import NoAnswer

        answer = in_background(call)
        try:
            with notice(self.app, whom):
                return answer.result(timeout + GRACE)
        except (TimeoutError, NoAnswer) as failure:
            answer.cancel()
            error = failure if isinstance(failure, NoAnswer) else client.no_answer(timeout)
            if not isinstance(error, NoAnswer):
                raise error from None
            raise type(error)(error.reason + silence_of(self.app)) from None
        finally:
            # It may wait for a broker that says nothing.
            futures.wait([in_background(client.close)], GRACE)

    def report(self, args: Any, sections: Iterable[str | Table], document: Any) -> None:
        """Print the sections, or the document for -f json."""
        if args.formatter == "json":
            json.dump(document, self.app.stdout, indent=2)
            self.app.stdout.write("\n")
        else:
            print_report(sections, self.app.stdout, args)


class _Formatted(BaseCommand):
    """A command with output that is fit for people and shells.

    Tables are fitted, and texts of tenants escaped. JSON and YAML do the latter themselves. cliff
    has made its formatter before this is called.
    """

    def produce_output(self, args: Any, columns: Any, data: Any) -> Any:
        if args.formatter == "table":
            self.formatter = FittedTable()
        if args.formatter == "shell":
            self.formatter = ShellAssignments()
        if args.formatter in ("value", "csv"):
            columns = [*map(escaped, columns)]
            data = self._plain(data)
        return super().produce_output(args, columns, data)


class ListCommand(_Formatted, Lister):  # type: ignore[misc]  # cliff has no types
    # Whether it only looks, so that it can be repeated.
    is_watchable: ClassVar[bool] = False
    # The titles of its columns by their keys, for the completion of -c.
    titles: ClassVar[Mapping[str, str]] = {}
    # What people read in place of an empty table.
    nothing = "The list is empty."
    pause: ClassVar[Callable[[float], None]] = staticmethod(time.sleep)

    def _plain(self, data: Any) -> Any:
        return [[*map(plain, row)] for row in data]

    def get_parser(self, prog_name: str) -> Any:
        parser = super().get_parser(prog_name)
        if self.is_watchable:
            add_watch(parser)
        return parser

    def run(self, args: Any) -> int:
        """Print the rows, with --watch again and again until Ctrl-C."""
        if getattr(args, "watch", None) is None:
            return int(super().run(args))
        try:
            while True:
                super().run(args)
                self.app.stdout.flush()
                type(self).pause(args.watch)
        except KeyboardInterrupt:
            return 0

    def produce_output(self, args: Any, columns: Any, data: Any) -> Any:
        if getattr(args, "watch", None) is not None and is_terminal(self.app.stdout):
            # The last list stays until the rows of the next one have been read.
            data = list(data)
            self.app.stdout.write(_CLEAR)
        rows = list(data)
        status = super().produce_output(args, columns, rows)
        if not rows and not is_for_programs(args):
            self.app.stderr.write(f"{self.nothing}\n")
        return status


class ShowCommand(_Formatted, ShowOne):  # type: ignore[misc]  # cliff has no types
    """A command that prints one row, a line for each column."""

    def _plain(self, data: Any) -> Any:
        return [*map(plain, data)]


class ReportCommand(BaseCommand):
    """A command that prints text and tables, or with -f json one document with all facts."""

    # Further ones are written by the command itself.
    formats: ClassVar[tuple[str, ...]] = ("table", "json")

    def get_parser(self, prog_name: str) -> Any:
        parser = super().get_parser(prog_name)
        what = "Output format: text and tables, or JSON with all facts (default: table)."
        parser.add_argument(
            "-f", "--format", dest="formatter", choices=self.formats, default="table", help=what
        )
        FittedTable().add_argument_group(parser)
        return parser


def titles_for(args: Any, few: Sequence[str], titles: Mapping[str, str]) -> Mapping[str, str]:
    """Return the titles of the columns to show: for people few of them, which fit in a terminal."""
    shown = {key: titles[key] for key in few}
    names = {title.lower() for title in shown.values()}
    asked = [each.lower().replace("_", " ") for each in args.sort_columns]
    if args.long or args.columns or args.formatter != "table" or not names.issuperset(asked):
        return titles
    return shown


def column_key(name: str) -> str:
    """Return in what form cliff compares the names of columns."""
    return name.lower().strip().replace(" ", "_")


def is_for_programs(args: Any) -> bool:
    """Return whether a list is printed for programs, which get all columns."""
    return args.formatter in ("json", "yaml")


def print_report(sections: Iterable[str | Table], stream: Any, args: Any = BY_TERMINAL) -> None:
    """Print texts, each a line, and tables that have rows, no wider than args say."""
    width = width_of(args, stream)
    for section in sections:
        if isinstance(section, str):
            stream.write(f"{wrapped(escaped(section), width)}\n")
        elif section.rows:
            stream.write(f"\n{wrapped(escaped(section.title), width)}\n" if section.title else "\n")
            FittedTable().emit_list(section.columns, section.rows, stream, args)


def readable(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of whose lists tables show the first few, and KEY=VALUE of mappings."""
    words: dict[type, Callable[[Any], str]] = {
        list: some,
        dict: lambda found: ", ".join(f"{key}={value}" for key, value in found.items()),
    }
    return {
        key: Worded(value, words[type(value)]) if type(value) in words else value
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
