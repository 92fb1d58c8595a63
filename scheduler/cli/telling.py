# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Commands whose answer is more than one table: a story for people, a document for programs."""

import argparse
import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from cliff.command import Command
from cliff.formatters.table import TableFormatter


class Table(NamedTuple):
    """A part of a story: a title, and rows of texts under the names of the columns."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


class TellingCommand(Command):  # type: ignore[misc]  # cliff has no types
    """A command that prints lines and tables, or with -f json one document with all of it."""

    def get_parser(self, prog_name: str) -> Any:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "-f",
            "--format",
            choices=("table", "json"),
            default="table",
            help="table is for people, json for programs, with all there is to say (table).",
        )
        return parser

    def tell(self, parsed_args: Any, story: Iterable[str | Table], document: Any) -> None:
        """Print the story or the document, as it was asked for."""
        stdout = self.app.stdout
        if parsed_args.format == "json":
            json.dump(document, stdout, indent=2)
            stdout.write("\n")
            return
        write_story(story, stdout)


def write_story(story: Iterable[str | Table], stdout: Any) -> None:
    """Print lines and tables; those without rows are left out."""
    for part in story:
        if isinstance(part, str):
            stdout.write(f"{_plain(part)}\n")
        elif part.rows:
            write(part, stdout)


def write(table: Table, stdout: Any) -> None:
    """Print a table."""
    stdout.write(f"\n{table.title}\n" if table.title else "\n")
    as_it_is = argparse.Namespace(max_width=0, fit_width=False, print_empty=False)
    rows = [[_plain(each) for each in row] for row in table.rows]
    TableFormatter().emit_list(table.columns, rows, stdout, as_it_is)


def _plain(value: Any) -> Any:
    """Return a value without what would command a terminal: tenants choose names and hints."""
    if not isinstance(value, str) or value.isprintable():
        return value
    return "".join(each if each.isprintable() else "?" for each in value)
