# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What holds for all commands."""

from importlib.metadata import distribution

import pytest

NAMES = sorted(
    each.name.replace("_", " ")
    for each in distribution("berthmaster").entry_points
    if each.group == "berthmaster.cli"
)


@pytest.mark.parametrize("name", NAMES)
def test_each_command_and_all_its_arguments_have_help(command, name):
    status, told, _ = command.run(*name.split(), "--help")
    assert status == 0
    head, _, rest = told.partition("\n\n")
    assert head.startswith(f"usage: berthmaster {name} ")
    about, _, arguments = rest.partition("\n\n")
    assert about.strip()
    assert arguments


def test_commands_that_there_are_none_of(command):
    status, told, _ = command.run("aggregate", "explode")
    assert status == 2
    assert "is not a berthmaster command" in told


def test_a_configuration_that_is_not_there(command):
    assert "/nowhere.conf" in command.refused("--config-file", "/nowhere.conf", "host", "list")


def test_a_database_that_has_no_tables(command, tmp_path):
    text = command.config.read_text()
    command.config.write_text(text.replace("inventory.sqlite", "other.sqlite"))
    assert "berthmaster db sync" in command.refused("host", "list")
