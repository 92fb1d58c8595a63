# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Commands that change several hosts at once, named on the command line or in a file."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from pathlib import Path
from typing import Any

from inventory.errors import OperationRefused, counted
from scheduler.operators.cli.arguments import add_host, check_combination
from scheduler.operators.cli.base import ShowCommand, column_key, list_rows, one_row
from scheduler.operators.cli.table_format import FittedTable

# The name of a file that is standard input.
_STDIN = "-"
# cliff's formats of one object that lists have as well, all but shell.
_OF_LISTS = ("table", "json", "yaml", "value")
_NONE = "no host is given: name hosts, or give a file of hosts with --from"


def add_hosts(parser: Any, shown_by: str = "host list", names: str = "hosts") -> None:
    """Add the arguments that name hosts, one at least; see hosts_of()."""
    add_host(parser, "*", shown_by, names)
    what = (
        "File with further names of hosts, one in a line, or - for standard input. Empty lines,"
        " and text after a #, are ignored."
    )
    parser.add_argument("--from", dest="file", metavar="FILE", help=what)
    # Otherwise an option before the hosts would end them.
    parser.parse_args = parser.parse_intermixed_args
    check_combination(parser, lambda args: None if args.host or args.file else _NONE)


def hosts_of(command: ShowCommand, args: Any) -> list[str]:
    """Return the names of the hosts, each once; raise OperationRefused if there are none."""
    names = [*args.host]
    if args.file is not None:
        names += _names(_lines(command, args.file))
    found = [*dict.fromkeys(names)]
    if not found:
        raise OperationRefused(f"{args.file} contains no name of a host")
    return found


def are_several(args: Any) -> bool:
    """Return whether a command is about a list of hosts, which a file always is."""
    return args.file is not None or len(args.host) > 1


def _lines(command: ShowCommand, file: str) -> Sequence[str]:
    try:
        if file == _STDIN:
            text = str(command.app.stdin.read()).removeprefix("\ufeff")
        else:
            text = Path(file).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise OperationRefused(f"cannot read {file}: {error.strerror}") from None
    except ValueError as error:
        raise OperationRefused(f"{file} cannot be used: it is not text in UTF-8: {error}") from None
    return text.splitlines()


def _names(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        if name := line.partition("#")[0].strip():
            yield name


class HostsCommand(ShowCommand):
    """A command that changes hosts: it prints one as one object, and several as a list of them."""

    def show(self, args: Any, rows: Sequence[dict[str, Any]]) -> tuple[Any, Any]:
        """Return the rows of the changed hosts, one at least, for produce_output()."""
        if not are_several(args):
            return one_row(rows[0])
        return list_rows({key: key for key in rows[0]}, rows)

    def take_hosts(self, args: Any) -> list[str]:
        """Return the hosts to change; raise OperationRefused if they could not be printed."""
        if are_several(args) and args.formatter not in _OF_LISTS:
            raise OperationRefused(
                f"-f {args.formatter} is for one host only: for several hosts, use one of"
                f" {', '.join(_OF_LISTS)}"
            )
        return hosts_of(self, args)

    def produce_output(self, args: Any, columns: Any, data: Any) -> Any:
        if not are_several(args):
            return super().produce_output(args, columns, data)
        asked = {*map(column_key, args.columns)}
        shown = [not asked or column_key(each) in asked for each in columns]
        rows = [[*compress(row, shown)] for row in data]
        formatter = FittedTable() if args.formatter == "table" else self.formatter
        formatter.emit_list([*compress(columns, shown)], rows, self.app.stdout, args)
        if args.formatter == "table":
            self.app.stdout.write(f"{counted(len(rows), 'host')}.\n")
        return 0
