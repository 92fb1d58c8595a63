# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The commands of the program: found without being imported, and listed by their first lines.

To import all of them takes two seconds of processor, and a call needs one.
"""

import ast
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import cache
from importlib.util import find_spec
from itertools import takewhile
from typing import Any

from cliff.commandmanager import CommandManager
from cliff.help import HelpCommand
from stevedore import NamedExtensionManager

from inventory.errors import nearest, similar

# The most words of a command.
LONGEST = 4
# Words of Nova and of others for what commands begin with.
SYNONYMS = {
    **dict.fromkeys(("server", "servers", "vm", "vms", "guest", "domain"), "instance"),
    **dict.fromkeys(("hosts", "compute", "node", "nodes", "agent"), "host"),
    "zone": "availability zone",
    "az": "availability zone",
    "group": "server group",
    "services": "service",
    "aggregates": "aggregate",
    "instances": "instance",
    "log": "audit",
}


class Commands(CommandManager):  # type: ignore[misc]  # cliff has no types
    """Loads the module of a command when it is called; cliff's own manager loads all of them."""

    def load_commands(self, namespace: str) -> None:
        self.group_list.append(namespace)
        # By stevedore, which has the entry points of all packages in a cache.
        plugins = NamedExtensionManager(namespace, names=[])
        for each in plugins.list_entry_points():
            self.commands[each.name.replace("_", " ")] = each

    def find_command(self, argv: list[str]) -> Any:
        """Return what cliff does; raise ValueError with similar names for an unknown command."""
        try:
            return super().find_command(argv)
        except ValueError:
            words = [*takewhile(lambda word: not word.startswith("-"), argv)][:LONGEST] or argv
            hint = _meant(words, [*self.commands])
            raise ValueError(f"there is no command {' '.join(words)!r}; {hint}") from None


def _meant(words: Sequence[str], commands: Iterable[str]) -> str:
    """Return a hint for the words of an unknown command: how it goes on, or what is like it."""
    typed = " ".join(words)
    if begun := [each for each in commands if each.startswith(f"{typed} ")]:
        following = dict.fromkeys(each.removeprefix(f"{typed} ") for each in begun)
        return f"{typed!r} is followed by one of {', '.join(sorted(following))}"
    known = set(commands)
    # What follows the name of a command may be its arguments.
    names = [" ".join(words[:number]) for number in range(len(words), 0, -1)]
    for name in names:
        first, *others = name.split()
        if (other := " ".join([SYNONYMS.get(first, first), *others])) in known:
            return f"did you mean {other}?"

    def likeness(name: str) -> float:
        found = similar(name, _as_long(name, known))
        return SequenceMatcher(None, name, found[0]).ratio() if found else 0.0

    name = max(names, key=likeness, default="")
    return nearest(name, _as_long(name, known), "'berthmaster help' lists all commands")


def _as_long(name: str, commands: Iterable[str]) -> list[str]:
    """Return the commands with as many words as a name."""
    return [each for each in commands if each.count(" ") == name.count(" ")]


class Help(HelpCommand):  # type: ignore[misc]  # cliff has no types
    """Show the options of a command, or list all commands."""

    def get_epilog(self) -> str:
        """Return none, as BaseCommand does."""
        return ""

    def take_action(self, args: Any) -> int:
        if args.cmd:
            return int(super().take_action(args) or 0)
        print_help(self.app)
        return 0


def print_help(app: Any) -> None:
    """Print the options of the program and a line for each command."""
    app.parser.print_help(app.stdout)
    app.stdout.write("\nCommands:\n")
    app.stdout.writelines(f"  {name:<13}  {line}\n" for name, line in _lines(app.command_manager))


def _lines(commands: CommandManager) -> Iterator[tuple[str, str]]:
    """Yield the name of each command and the first line of its description."""
    for name, entry_point in sorted(commands):
        module, _, attribute = entry_point.value.partition(":")
        # A module without its source is imported after all.
        text = _descriptions(module).get(attribute) or entry_point.load().__doc__ or ""
        yield name, text.strip().partition("\n")[0].rstrip(".")


@cache
def _descriptions(module: str) -> dict[str, str]:
    """Return the beginnings of the docstrings of the classes in a module, which is only parsed."""
    spec = find_spec(module)
    source = getattr(spec.loader, "get_source", lambda _: None)(module) if spec else None
    tree = ast.parse(source or "")
    found = {each.name: _description(each) for each in tree.body if isinstance(each, ast.ClassDef)}
    return {name: text for name, text in found.items() if text}


def _description(node: ast.ClassDef) -> str:
    """Return a docstring, or the beginning of one that is composed as __doc__ = f"..."."""
    first = node.body[0]
    value = first.value if isinstance(first, ast.Assign) else None
    parts = value.values if isinstance(value, ast.JoinedStr) else [value]
    text = parts[0].value if parts and isinstance(parts[0], ast.Constant) else None
    return text if isinstance(text, str) else ast.get_docstring(node) or ""
