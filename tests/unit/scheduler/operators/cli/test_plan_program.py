# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.operators.cli.plan_program, with real programs."""

import os
import subprocess

import pytest

from scheduler.operators.cli.plan_program import (
    MoveFailed,
    Program,
    environment_of,
    is_running,
    program_id,
)
from tests.fixtures.daemons.process import PATIENCE, wait_until


def a_program(*arguments):
    return Program(arguments, environment_of(None))


def run(*arguments):
    with a_program(*arguments) as program:
        program.begin()
        assert program.has_ended(PATIENCE)
        program.check()


def test_its_arguments_are_seen_by_no_shell(tmp_path):
    said = tmp_path / "said"
    odd = ["$(touch x)", "a  b", "'", "-n", "*", "\\"]
    run("python3", "-c", f"import sys; open({str(said)!r}, 'w').write(repr(sys.argv[1:]))", *odd)
    assert said.read_text() == repr(odd)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("exit 3", "sh has ended with status 3: no output"),
        ("echo first; echo ' last '; echo; exit 1", "sh has ended with status 1: last"),
        (r"printf 'caf\351\n'; exit 1", "sh has ended with status 1: caf\N{REPLACEMENT CHARACTER}"),
        ("seq 1000000; echo >&2 the end; exit 1", "sh has ended with status 1: the end"),
        ("kill -9 $$", "sh has ended with status -9: no output"),
    ],
)
def test_the_last_line_says_why_a_program_has_failed(script, why):
    with pytest.raises(MoveFailed) as caught:
        run("sh", "-c", script)
    assert str(caught.value) == why


@pytest.mark.parametrize("name", ["/nonexistent/program", "with a \0"])
def test_what_is_no_program_has_failed(name):
    with pytest.raises(MoveFailed, match=r"^/nonexistent/program has ended|null byte"):
        run(name)


def test_it_reads_nothing():
    run("sh", "-c", "! read line")


def test_a_program_is_not_begun_before_it_is_written_down(tmp_path):
    """A run that is killed in between leaves nothing behind that moves an instance."""
    with a_program("touch", str(tmp_path / "begun")) as program:
        assert is_running(program.id)
    assert program.has_ended(PATIENCE)
    assert not is_running(program.id)
    assert not (tmp_path / "begun").exists()


def test_a_killed_program_takes_along_what_it_has_begun(tmp_path):
    with a_program("sh", "-c", f"sleep 1000 & echo $! > {tmp_path}/pid; wait") as program:
        program.begin()
        assert wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        child = program_id(int((tmp_path / "pid").read_text()))
        assert is_running(child)
        program.kill()
        assert program.has_ended(PATIENCE)
    assert wait_until(lambda: not is_running(child))


def test_no_other_process_is_mistaken_for_it():
    """A number may be given to another process, after a start of the host as well."""
    mine = program_id(os.getpid())
    assert is_running(mine)
    assert not is_running(mine._replace(began="1"))
    assert not is_running(mine._replace(boot="another"))


def test_one_that_nobody_has_waited_for_has_ended():
    with subprocess.Popen(["true"]) as process:
        assert wait_until(lambda: program_id(process.pid) is None)
        assert process.wait() == 0
