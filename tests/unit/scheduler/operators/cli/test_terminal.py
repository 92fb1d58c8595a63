# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.operators.cli.terminal, through commands on pseudo-terminals."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from inventory.queries import host_queries
from scheduler.operators.cli import terminal
from scheduler.operators.cli.base import ListCommand
from tests.databases import a_node, an_instance, save, serve
from tests.fixtures.terminal import Terminal
from tests.unit.scheduler.operators.cli.test_plan import put

CLEAR = "\r\033[K"
GREEN, RED, RESET = "\033[32m", "\033[31m", "\033[0m"


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """That of a user at an ordinary terminal."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    return monkeypatch


@pytest.fixture
def at_once(monkeypatch):
    """Show progress from the beginning."""
    monkeypatch.setattr(terminal, "PROGRESS_AFTER", 0.0)


@pytest.fixture
def cloud(database):
    """Two hosts, of which one is up."""
    save(database, a_node("h1"), a_node("h2"))
    serve(database, "h1")
    return database


@pytest.mark.usefixtures("cloud")
def test_states_are_coloured_on_a_terminal(command):
    status, shown = command.at_terminal("host", "list")
    assert status == 0
    assert f"{GREEN}up{RESET}" in shown
    assert f"{RED}unserved{RESET}" in shown


@pytest.mark.usefixtures("cloud")
@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_who_wants_no_colours_gets_none(command, environment, name, value):
    environment.setenv(name, value)
    status, shown = command.at_terminal("host", "list")
    assert status == 0
    assert "| up " in shown
    assert "\033" not in shown


@pytest.mark.usefixtures("cloud")
def test_a_watched_list_stays_until_the_next_one_is_there(command, environment):
    pauses = []

    def pause(_):
        pauses.append(1)
        if len(pauses) == 2:
            raise KeyboardInterrupt

    def listed(*arguments):
        print("asked;", end="")
        return list_hosts(*arguments)

    list_hosts = host_queries.listed
    environment.setattr(ListCommand, "pause", staticmethod(pause))
    environment.setattr(host_queries, "listed", listed)
    status, shown = command.at_terminal("host", "list", "--watch")
    before, *screens = shown.split("asked;")
    assert (status, before, len(screens)) == (0, "", 2)
    assert all(screen.startswith("\033[H\033[J+--") for screen in screens)


@pytest.mark.usefixtures("cloud", "at_once")
def test_a_pipe_gets_neither_colours_nor_progress(command):
    done = command.run("host", "list")
    assert "| up " in done.stdout
    assert "\033" not in done.stdout
    assert done.stderr == ""


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("host list", r"reading the database, \d+ s"),
        ("host disable h1", r"writing the database, \d+ s"),
        ("db sync", r"upgrading the schema, \d+ s"),
        ("capacity --flavor=1,512,1", r"instances placed(: \d+)?, \d+ s; Ctrl-C shows how many"),
        ("capacity --flavor=1,512,1", r"reading the hosts, \d+ s"),
        ("capacity --flavor=1,512,1", r"looking for what bounds the flavors, \d+ s"),
        ("failover simulate", r"instances decided(: 0 of 1)?, \d+ s"),
        ("plan drain h2", r"reading the instances, \d+ s"),
        ("plan drain h1", r"moves planned(: \d+)?, \d+ s left; Ctrl-C shows them"),
        (
            "simulate --flavors=1:512:1=1 --arrivals=30",
            r"run 1 of 1: arrivals decided(: 30 of 30)?, \d+ s( left)?",
        ),
    ],
)
def test_a_terminal_shows_how_far_a_command_is(command, cloud, arguments, line):
    put(cloud, "h1", an_instance("i1", memory_mb=512))
    _, shown = command.at_terminal(*arguments.split())
    written = [text for text in shown.split(CLEAR) if re.match(f"{line}$", text)]
    assert written, shown
    # It is gone before what the command has to say.
    before, _, after = shown.rpartition(CLEAR)
    assert before
    assert not re.search(line, after)


@pytest.mark.usefixtures("cloud")
def test_what_is_done_at_once_has_no_progress(command):
    _, shown = command.at_terminal("host", "list")
    assert CLEAR not in shown


@pytest.mark.usefixtures("at_once", "cloud")
def test_a_terminal_without_control_sequences_shows_no_progress(command, environment):
    environment.setenv("TERM", "dumb")
    _, shown = command.at_terminal("capacity", "--flavor=1,512,1")
    assert "\r" not in shown.replace("\r\n", "\n")
    assert "reading" not in shown


def test_a_line_is_no_longer_than_the_terminal(command, environment):
    with Terminal(width=30) as shown:
        line = terminal._Line(shown.stream, "placing instances on many hosts", 2000, None)
        line.tell(100)
        line._write(line._text())
    assert shown.text == f"{CLEAR}placing instances on many hos"


@pytest.mark.release
def test_a_long_simulation_says_what_is_left(command):
    """In a process of its own, whose results are in a pipe."""
    arguments = ["simulate", "--hosts=2000:16,65536,1000", "--flavors=1:512:1=1", "--arrivals=3000"]
    program = Path(sys.executable).parent / "berthmaster"
    with Terminal() as shown:
        done = subprocess.run(
            [program, f"--config-file={command.config}", *arguments],
            stdout=subprocess.PIPE,
            stderr=shown.stream,
            check=True,
        )
    assert re.search(r"run 1 of 1: arrivals decided: \d+ of 3000, \d+ s left", shown.text)
    assert shown.text.endswith(CLEAR)
    assert b"\r" not in done.stdout
    assert done.stdout.startswith(b"2000 hosts, 3000 requests in each run")
