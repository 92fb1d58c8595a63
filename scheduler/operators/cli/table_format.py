# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tables that fit the terminal, or the width that was asked for, and show states in colour."""

import re
import shlex
import shutil
import textwrap
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from cliff.columns import FormattableColumn
from cliff.formatters.shell import ShellFormatter
from cliff.formatters.table import TableFormatter
from prettytable import PrettyTable

from conf.plain_text import escaped
from scheduler.operators.cli.terminal import is_coloured

# Characters around and between columns: "| " and " |", and " | ".
_EDGES, _BETWEEN = 4, 3
_GREEN, _YELLOW, _RED = 32, 33, 31
_COLOURS = {
    **dict.fromkeys(("up", "enabled", "available", "placed", "chosen", "confirmed"), _GREEN),
    **dict.fromkeys(("pending", "disabled", "maintenance", "given_up"), _YELLOW),
    **dict.fromkeys(("down", "forced_down", "unserved", "not available"), _RED),
    **dict.fromkeys(("refused", "failed"), _RED),
}
# The columns, and in tables of one object the fields, whose values these are; "" is that of a mark.
_STATES = {"state", "status", "zone status", "service state", "service status", "outcome", ""}
# What no name of a shell's variable has.
_NO_VARIABLE = re.compile(r"[^a-z0-9_]")
# Words of keys that are written otherwise in titles.
_WORDS = {"id": "ID", "uuid": "UUID", "vcpus": "vCPUs", "mb": "MB", "gb": "GB", "percent": "%"}


def titled(keys: str, **others: str) -> dict[str, str]:
    """Return the titles of columns by their keys: others, or else the words of the key."""
    derived = {
        key: " ".join(_WORDS.get(word, word.capitalize()) for word in key.split("_"))
        for key in keys.split()
    }
    return derived | others


class FittedTable(TableFormatter):  # type: ignore[misc]  # cliff has no types
    """cliff's table formatter, whose tables never overflow a width that is known.

    Its own leaves at least 8 characters to each column. Here wide columns become narrow first,
    between words as far as possible, and numbers last.
    """

    def emit_list(
        self, column_names: Sequence[str], data: Iterable[Any], stdout: Any, parsed_args: Namespace
    ) -> None:
        rows = [[*row] for row in data]
        if not rows and not parsed_args.print_empty:
            # As cliff does.
            stdout.write("\n")
            return
        first = rows[0] if rows else column_names
        aligned: list[Literal["l", "r"]] = [
            "r" if type(each) in (int, float) else "l" for each in first
        ]
        _write(column_names, rows, aligned, stdout, parsed_args)

    def emit_one(
        self, column_names: Sequence[str], data: Sequence[Any], stdout: Any, parsed_args: Namespace
    ) -> None:
        rows = [[*pair] for pair in zip(column_names, data, strict=True)]
        _write(("Field", "Value"), rows, ["l", "l"], stdout, parsed_args)


class ShellAssignments(ShellFormatter):  # type: ignore[misc]  # cliff has no types
    """cliff's formatter for "eval", whose values no shell takes for anything else.

    Its own writes values between double quotes, in which a shell runs what a tenant has named an
    instance.
    """

    def emit_one(
        self, column_names: Sequence[str], data: Sequence[Any], stdout: Any, parsed_args: Namespace
    ) -> None:
        for title, value in zip(column_names, data, strict=True):
            name = _NO_VARIABLE.sub("_", title.lower())
            if name in parsed_args.variables or not parsed_args.variables:
                text = str(plain(value))
                stdout.write(f"{parsed_args.prefix}{name}={shlex.quote(text)}\n")


class Worded(FormattableColumn):  # type: ignore[misc]  # cliff has no types
    """A value that JSON has as it is, and of which a table shows words(value), line by line."""

    def __init__(self, value: Any, words: Callable[[Any], str | Iterable[str]]) -> None:
        super().__init__(value)
        self._words = words

    def human_readable(self) -> str:
        words = self._words(self._value)
        return "\n".join(map(escaped, [words] if isinstance(words, str) else words))


def width_of(args: Namespace, stream: Any) -> int:
    """Return how many characters a line may have, 0 for any number.

    That is --max-width, or else the width of the terminal, which --fit-width asks for in a pipe.
    """
    if args.max_width > 0:
        return int(args.max_width)
    return shutil.get_terminal_size().columns if args.fit_width or stream.isatty() else 0


def wrapped(text: str, width: int) -> str:
    """Return a line of text, broken between words where it is longer than width; 0 never breaks."""
    if not width or len(text) <= width:
        return text
    indent = " " * min(len(text) - len(text.lstrip()) + 2, width // 2)
    return "\n".join(textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=False))


def printable(value: Any) -> str:
    """Return the text of a cell; only words that we have made of a value have several lines."""
    if isinstance(value, FormattableColumn):
        return str(value.human_readable())
    return "" if value is None else escaped(str(value))


def plain(value: Any) -> Any:
    """Return a value for a list of values, for CSV and for a shell: a text in one line.

    Of lists and mappings Python writes texts so, without line ends and control characters.
    """
    if isinstance(value, FormattableColumn):
        value = value.machine_readable()
    return escaped(value) if isinstance(value, str) else value


def fitted_widths(texts: Sequence[Sequence[str]], numeric: Sequence[bool], room: int) -> list[int]:
    """Return the widths of columns with these texts, headers first, that sum up to room at most.

    Columns are as wide as their texts if they can be, else as their longest words, else narrower.
    Each has one character at least.
    """
    natural = [_longest(column, str.splitlines) for column in texts]
    words = [_longest(column, str.split) for column in texts]
    numbers = [
        _longest(column[1:], str.split) if is_number else 1
        for column, is_number in zip(texts, numeric, strict=True)
    ]
    for least, most in ((words, natural), (numbers, words), ([1] * len(texts), numbers)):
        if sum(least) <= room:
            return _levelled(least, most, room)
    return [1] * len(texts)


def _longest(texts: Iterable[str], split: Callable[[str], list[str]]) -> int:
    return max((len(part) for text in texts for part in split(text)), default=0) or 1


def _levelled(least: Sequence[int], most: Sequence[int], room: int) -> list[int]:
    """Return widths between least and most, of which the widest are equal, as far as room goes."""

    def at(level: int) -> list[int]:
        return [min(high, max(low, level)) for low, high in zip(least, most, strict=True)]

    level = max(most)
    while sum(at(level)) > room:
        level -= 1
    widths, wider = at(level), at(level + 1)
    # What is left is not enough for all that could be wider.
    for number, width in enumerate(wider):
        if sum(widths) < room:
            widths[number] = width
    return widths


def _write(
    titles: Sequence[str],
    rows: Sequence[Sequence[Any]],
    aligned: Sequence[Literal["l", "r"]],
    stream: Any,
    args: Namespace,
) -> None:
    lines = [[*map(printable, titles)], *([printable(each) for each in row] for row in rows)]
    width = width_of(args, stream)
    room = width - _EDGES - _BETWEEN * (len(titles) - 1)
    if width and titles:
        columns = [*zip(*lines, strict=True)]
        widths = fitted_widths(columns, [each == "r" for each in aligned], max(room, 0))
        lines = [
            [_broken(text, each) for text, each in zip(row, widths, strict=True)] for row in lines
        ]
    if is_coloured(stream):
        lines[1:] = [[*map(_coloured, [*titles], row)] for row in lines[1:]]
    names, *cells = lines
    # prettytable has fields by their names, which must differ.
    names = [name + " " * names[:number].count(name) for number, name in enumerate(names)]
    table = PrettyTable(names)
    table.align.update(zip(names, aligned, strict=True))
    if any("\n" in name for name in names):
        # prettytable breaks cells and no titles.
        table.header = False
        table.add_row(names, divider=True)
    table.add_rows(cells)
    stream.write(f"{table}\n")


def _broken(text: str, width: int) -> str:
    """Return a text in lines of a width, broken between words where that is possible."""
    if len(text) <= width:
        return text
    lines = (textwrap.wrap(line, width, break_on_hyphens=False) for line in text.split("\n"))
    return "\n".join("\n".join(each) for each in lines)


def _coloured(title: str, text: str) -> str:
    colour = _COLOURS.get(text.lower()) if title.lower() in _STATES else None
    return f"\033[{colour}m{text}\033[0m" if colour else text
