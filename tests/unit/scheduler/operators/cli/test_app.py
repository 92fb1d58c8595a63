# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What holds for all commands."""

import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

from inventory import migrations
from tests.fixtures.daemons.process import PATIENCE

NAMES = sorted(
    each.name.replace("_", " ")
    for each in distribution("berthmaster").entry_points
    if each.group == "berthmaster.cli"
)


@pytest.mark.parametrize("name", NAMES)
def test_each_command_and_all_its_arguments_have_help(command, name):
    status, output, _ = command.run(*name.split(), "--help")
    assert status == 0
    head, _, rest = output.partition("\n\n")
    assert head.startswith(f"usage: berthmaster {name} ")
    about, _, arguments = rest.partition("\n\n")
    assert about.strip()
    assert arguments


def test_an_unknown_command(command):
    status, output, error = command.run("aggregate", "explode")
    assert (status, output) == (2, "")
    assert error.startswith("there is no command 'aggregate explode'; ")


def test_a_configuration_that_is_not_there(command):
    assert "/nowhere.conf" in command.refused("--config-file", "/nowhere.conf", "host", "list")


def test_options_of_the_program_may_follow_the_command(command, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    option, *command.options = command.options
    assert command.json("service", "list", option) == []
    assert command.run("db", "version", option).stdout == f"{migrations.HEAD}\n"


def test_a_database_that_has_no_tables(command, tmp_path):
    text = command.config.read_text()
    command.config.write_text(text.replace("inventory.sqlite", "other.sqlite"))
    refused = command.refused("host", "list")
    assert f"'berthmaster {command.options[0]} db sync'" in refused
    assert f"[database] connection is sqlite:///{tmp_path}/other.sqlite" in refused


def test_a_database_that_is_gone_is_named_in_one_line_without_its_password(command):
    command.config.write_text(
        "[database]\nconnection = mysql+pymysql://me:secret@127.0.0.1:1/bm?charset=utf8\n"
        "max_retries = 1\nretry_interval = 0\n"
    )
    refused = command.refused("host", "list")
    assert refused.startswith("the database is not available: ")
    assert refused.endswith("([database] connection is mysql+pymysql://me:***@127.0.0.1:1/bm)")
    assert "\n" not in refused


def test_a_wrong_url_is_not_shown(command):
    command.config.write_text("[database]\nconnection = mysql+pymysql://me:p@host:secret/bm\n")
    refused = command.refused("host", "list")
    assert refused.endswith(": the value cannot be read as a URL")


@pytest.mark.parametrize("text", ["x", "-1", "0", "1.5", "9" * 6000])
@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("select", "--vcpus"),
        ("select", "--memory-mb"),
        ("select", "--limit"),
        ("explain", "--limit"),
    ],
)
def test_a_wrong_number_is_refused_in_plain_words(command, name, option, text):
    refused = command.refused(name, f"{option}={text}", status=2)
    assert f"argument {option}: {text!r} is not a whole number from 1 to 2147483647" in refused


def test_what_cannot_be_asked_for(command):
    def refused(*arguments):
        return command.refused("select", *arguments, status=2)

    assert "--num-instances: '100000' is not a whole number from 1 to 10000" in refused(
        "--num-instances=100000"
    )
    assert "--disk-gb: '-1' is not a whole number from 0 to" in refused("--disk-gb=-1")
    assert "--timeout: 'x' is not a number of seconds above 0" in refused("--timeout=x")
    assert "--dry-run has the formats table and json, not yaml" in refused(
        "--dry-run", "-f", "yaml"
    )


@pytest.mark.parametrize(
    ("lines", "status", "outputs", "complaints"),
    [
        (
            "host show\nservice list -f csv\nhost show nowhere\ndb version\nexit\n",
            0,
            ['"ID","Binary","Host"', "0018"],
            ["the following arguments are required: host", "has no compute node"],
        ),
        ("db version\nhost show nowhere\n", 1, ["0018"], ["host 'nowhere' has no compute node"]),
        ("", 0, [], []),
    ],
)
def test_without_a_command_it_reads_commands(command, lines, status, outputs, complaints):
    program = Path(sys.executable).parent / "berthmaster"
    done = subprocess.run(
        [program, "--config-file", command.config],
        input=lines,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == status, done
    assert all(each in done.stdout for each in outputs)
    assert all(each in done.stderr for each in complaints)
    assert "there is no command" not in done.stderr
    assert bool(done.stderr) == bool(complaints)


@pytest.mark.parametrize("names", [["Nope"], ["Host", "Nope"]])
@pytest.mark.parametrize("name", ["service list", "host list"])
def test_an_unknown_column_is_refused_with_the_known_ones(command, name, names):
    refused = command.refused(*name.split(), *(f"-c={each}" for each in names))
    assert refused.startswith("there is no column 'Nope' to show; the columns are ")
    assert "Host, " in refused
    assert command.run(*name.split(), "-c", "host", "-f", "value").status == 0


def test_a_command_collects_its_garbage_and_not_among_what_it_imports(command):
    program = (
        "import atexit, gc, sys\n"
        "from scheduler.operators.cli.cmd import main\n"
        "seen = lambda: (gc.isenabled(), gc.get_freeze_count() > 0)\n"
        "atexit.register(lambda: print(*seen(), file=sys.stderr))\n"
        "main()\n"
    )
    line = [sys.executable, "-c", program, f"--config-file={command.config}", "db", "version"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stderr.split() == ["True", "True"]
