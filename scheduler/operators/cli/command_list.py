# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The commands of the program: found without being imported, and listed by their first lines.

To import all of them takes two seconds of processor, and a call needs one.
"""

import ast
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from typing import Any

from cliff.commandmanager import CommandManager
from cliff.help import HelpCommand
from stevedore import NamedExtensionManager

from inventory.errors import nearest


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
            name = " ".join(argv)
            hint = nearest(name, self.commands, "'berthmaster help' lists all commands")
            raise ValueError(f"there is no command {name!r}; {hint}") from None


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
