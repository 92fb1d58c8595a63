# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What can follow on a command line, for shells, whose functions complete words with it.

A shell asks once for all words that may stand in a place, and picks by what was typed itself. So
nothing here is quoted for a shell, and nothing that was typed is evaluated.
"""

import argparse
import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from cliff.commandmanager import CommandManager

from conf.private_apis import arguments_of
from scheduler.operators.cli import clouds
from scheduler.operators.cli.app import read_chosen, rename_options
from scheduler.operators.cli.arguments import add_flag
from scheduler.operators.cli.base import BaseCommand, column_key
from scheduler.operators.cli.waiting import in_background

# Seconds for the names in the database, which somebody waits for who has pressed a key.
NAMES_TIMEOUT = 1.0
# What follows is words that stay the same, names that do not, a path, or nothing that is known.
# A list is of words with commas between.
WORDS, LISTS, NAMES, FILES, NOTHING = "words", "lists", "names", "files", "nothing"
_OF_COLUMNS = ("columns", "sort_columns")
_OF_PATHS = ("PATH", "DIR", "FILE")
Words = Sequence[str]


class Expected(NamedTuple):
    """What can follow: of which kind it is, the words, and the kind of the names."""

    kind: str
    words: Words = ()
    names: str = ""


class CompleteWords(BaseCommand):
    """Print what can follow on a command line, for the completion of shells.

    The first line says of what kind the following lines are: words, lists, names, files or nothing.
    If the database does not answer within a second, no names are printed.
    """

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument(
            "line",
            help=(
                "Words of the command line, one in a line, without the word that is to be"
                " completed."
            ),
        )
        add_flag(parser, "--options", "Print the options that can follow.")

    def take_action(self, args: Any) -> None:
        _, *words = map(_typed, args.line.split("\n"))
        expected = expected_after(self.app, rename_options(words), args.options)
        found = expected.words
        if expected.kind == NAMES:
            # Completion without names, since an error would be printed into the command line.
            with suppress(Exception):
                found = self._names(expected.names, words)
        self.app.stdout.write("".join(f"{line}\n" for line in (expected.kind, *found)))

    def _names(self, kind: str, words: Words) -> list[str]:
        """Return the names of a kind in the database that a command line is about."""
        # Imported before the time for the database begins.
        from inventory.queries import name_queries
        from scheduler.operators.cli import database_connection  # noqa: F401  # read() needs it

        if kind == "clouds":
            return sorted(clouds.known())
        given, _ = self.app.parser.parse_known_args(words)
        read_chosen(self.conf, given)
        self.app.options.database_timeout = NAMES_TIMEOUT
        wanted = "server groups" if kind == "hints" else kind
        answer = in_background(lambda: self.read(name_queries.names, wanted))
        found = answer.result(NAMES_TIMEOUT)
        if kind == "hints":
            return [f"group={name}" for name in found]
        return sorted({*found, self.default_zone}) if kind == "zones" else found


def _typed(word: str) -> str:
    """Return a word without its quotes."""
    try:
        return "".join(shlex.split(word))
    except ValueError:
        return word


def expected_after(app: Any, words: Words, wants_options: bool) -> Expected:
    arguments = arguments_of(app.parser)
    waiting, count = _followed(arguments, words, until_positional=True)
    if waiting is not None:
        return _value_of(waiting)
    words = words[count:]
    if words[:1] == ["help"]:
        words = words[1:]
    following = _commands_after(app.command_manager, words)
    if following and not wants_options:
        return Expected(WORDS, following)
    titles: list[str] = []
    if words:
        try:
            factory, name, words = app.command_manager.find_command([*words])
        except ValueError:
            return Expected(WORDS, ["--help"] if following else [])
        arguments = arguments_of(factory(app, None).get_parser(name))
        titles = [*getattr(factory, "titles", {}).values()]
    waiting, count = _followed(arguments, words)
    if waiting is not None and waiting.dest in _OF_COLUMNS:
        return Expected(WORDS, [*map(column_key, titles)])
    if waiting is not None and not (wants_options and waiting.nargs == "?"):
        return _value_of(waiting)
    if wants_options:
        return Expected(WORDS, [option for each in arguments for option in each.option_strings])
    positional = _positional(arguments, count)
    return Expected(NOTHING) if positional is None else _value_of(positional)


def _commands_after(manager: CommandManager, words: Words) -> list[str]:
    """Return the words of which one has to follow for a command."""
    names = [name.split() for name, _ in manager]
    longer = (name for name in names if len(name) > len(words) and name[: len(words)] == [*words])
    return sorted({name[len(words)] for name in longer})


def _followed(
    arguments: Iterable[argparse.Action], words: Words, until_positional: bool = False
) -> tuple[argparse.Action | None, int]:
    """Return the option whose value is to follow, and how many positional arguments there are.

    With until_positional, that is the number of words before the first of these.
    """
    options = {option: each for each in arguments for option in each.option_strings}
    waiting, positionals = None, 0
    for number, word in enumerate(words):
        is_option = word.startswith("-")
        if waiting is not None and not (is_option and waiting.nargs == "?"):
            waiting = None
        elif is_option:
            option, has_value, _ = word.partition("=")
            found = options.get(option)
            waiting = found if found and found.nargs != 0 and not has_value else None
        elif until_positional:
            return None, number
        else:
            positionals += 1
    return waiting, len(words) if until_positional else positionals


def _positional(arguments: Iterable[argparse.Action], number: int) -> argparse.Action | None:
    """Return the positional argument with a number, from 0 on.

    Where one takes several words, the argument after it is completed once it has one word.
    """
    found = [each for each in arguments if not each.option_strings]
    if number >= len(found) and not any(each.nargs in ("+", "*") for each in found):
        return None
    return found[min(number, len(found) - 1)]


def _value_of(argument: argparse.Action) -> Expected:
    if argument.choices is not None:
        return Expected(WORDS, [*map(str, argument.choices)])
    if words := getattr(argument, "words", None):
        return Expected(LISTS, words)
    if names := getattr(argument, "names", None):
        return Expected(NAMES, names=names)
    is_path = argument.type is Path or argument.metavar in _OF_PATHS
    return Expected(FILES if is_path else NOTHING)
