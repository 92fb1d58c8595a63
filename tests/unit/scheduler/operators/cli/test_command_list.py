# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of what a command imports, which is nearly all of its processor time, and of the list."""

import subprocess
import sys
from importlib import metadata

import pytest

from scheduler.operators.cli.command_list import Commands
from tests.fixtures.daemons.process import PATIENCE

# Prints afterwards which modules were imported, in one line.
PROGRAM = """
import atexit, sys
atexit.register(lambda: print("\\n" + " ".join(sys.modules)))
sys.argv[0] = "berthmaster"
from scheduler.operators.cli import cmd
cmd.main()
"""
DATABASE = {"sqlalchemy", "inventory.engine"}
# Each takes at least a tenth of a second, and most of them a third.
SLOW = {
    "alembic",
    "eventlet",
    "kombu",
    "matplotlib",
    "oslo_messaging",
    "oslo_service.service",
    "prometheus_client",
    "pyarrow",
    "scheduler.service",
    "sqlalchemy.orm",
}
DECIDING = {"numpy", "scheduler.decision.pipeline"}
CONFIGURATION = {"conf.opts", "oslo_log.log"}


def named(value: list[str] | set[str]) -> str:
    """Return the name of a case: its arguments, without the modules, whose order is by chance."""
    return " ".join(value) if isinstance(value, list) else ""


def run(*arguments: str) -> tuple[str, set[str]]:
    """Return what a command prints, and the modules that it has imported."""
    command = [sys.executable, "-c", PROGRAM, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    text, _, modules = done.stdout.rstrip("\n").rpartition("\n")
    assert "scheduler.operators.cli.app" in modules, done
    return text, set(modules.split())


@pytest.mark.parametrize(
    ("arguments", "unneeded"),
    [
        (["--version"], SLOW | DATABASE | DECIDING | CONFIGURATION),
        (["--help"], SLOW | DATABASE | DECIDING | CONFIGURATION),
        (["help"], SLOW | DATABASE | DECIDING | CONFIGURATION),
        (["host", "list", "--help"], SLOW | DECIDING | CONFIGURATION),
        (["select", "--help"], SLOW | DATABASE),
        (["capacity", "--help"], SLOW),
        (["simulate", "--help"], SLOW),
    ],
    ids=named,
)
def test_help_imports_no_more_than_it_needs(arguments, unneeded):
    _, modules = run(*arguments)
    assert not modules & unneeded


@pytest.mark.parametrize(
    ("arguments", "unneeded"),
    [
        (["host", "list"], SLOW | DECIDING),
        (["service", "list"], SLOW | DECIDING),
        (["aggregate", "list"], SLOW),
        (["claim", "list"], SLOW),
        (["decision", "list"], SLOW),
        (["capacity", "--flavor", "1,1,1"], SLOW),
    ],
    ids=named,
)
def test_a_command_imports_no_more_than_it_needs(arguments, unneeded, command):
    _, modules = run("--config-file", str(command.config), *arguments)
    assert not modules & unneeded
    assert "sqlalchemy" in modules


def test_the_help_lists_all_commands_with_their_first_lines():
    text, _ = run("--help")
    listed = text.partition("\nCommands:\n")[2].splitlines()
    lines = {line.strip().partition("  ")[::2] for line in listed}
    found = {name: what.strip() for name, what in lines}
    for each in metadata.entry_points(group="berthmaster.cli"):
        description = each.load().__doc__.strip()
        assert found[each.name.replace("_", " ")] == description.split("\n")[0].rstrip(".")
    assert found["help"] == "Show the options of a command, or list all commands"


def test_commands_are_found_without_being_imported():
    commands = Commands("berthmaster.cli")
    factory, name, rest = commands.find_command(["host", "list", "--zone", "a"])
    assert (factory.__name__, name, rest) == ("HostList", "host list", ["--zone", "a"])
