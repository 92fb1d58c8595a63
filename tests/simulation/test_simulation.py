# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Histories of a simulated cloud: they break no rule, and known faults are found."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.known_faults import FAULTS

ROOT = Path(__file__).parents[2]
STORIES = Path(__file__).parent / "stories"
PAGE = ROOT / "doc/source/contributor/how-it-is-tested.rst"
# As many lines as a failure may take.
MOST_LINES = 40


def simulate(arguments: str) -> tuple[int, str]:
    """Return the status of the command with these arguments, and what it prints."""
    # Eventlet warns at once; warnings are errors in the tests of pytest alone.
    command = [sys.executable, "-W", "ignore", "-m", "tests.simulation", *shlex.split(arguments)]
    found = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    return found.returncode, found.stdout


@pytest.mark.parametrize("seed", [3, pytest.param(4, id="a Nova cloud")])
def test_two_runs_of_a_seed_write_the_same_log(seed: int) -> None:
    status, log = simulate(f"--seed {seed}")
    assert status == 0
    assert len(log.splitlines()) > 500
    assert simulate(f"--seed {seed}") == (0, log)


def test_drawn_histories_break_no_rule() -> None:
    status, text = simulate("--seeds 0:50 --requests 8")
    assert status == 0, text


@pytest.mark.matrix
def test_more_histories_break_no_rule() -> None:
    status, text = simulate("--seeds 1000:1120")
    assert status == 0, text


@pytest.mark.matrix
def test_histories_of_a_nova_cloud_break_no_rule() -> None:
    status, text = simulate("--seeds 600:720 --nova")
    assert status == 0, text


@pytest.mark.release
def test_a_thousand_histories_break_no_rule() -> None:
    status, text = simulate("--seeds 2000:3000")
    assert status == 0, text


def test_what_once_failed_breaks_no_rule_now() -> None:
    """The last line of each story is the command that plays it again."""
    for path in sorted(STORIES.glob("*.txt")):
        *_, command = path.read_text().splitlines()
        status, text = simulate(command.partition("tests.simulation ")[2])
        assert status == 0, f"{path.name}: {text[-2_000:]}"


@pytest.mark.release
@pytest.mark.parametrize("fault", FAULTS)
def test_a_known_fault_is_found_within_1000_histories(fault: str) -> None:
    status, text = simulate(f"--seeds 0:1000 --tries 1 --fault {fault}")
    assert status == 0, text


@pytest.mark.matrix
def test_the_lines_that_are_reached_are_printed() -> None:
    status, text = simulate("--seeds 0:2 --coverage")
    assert status == 0
    (loop,) = [line.split() for line in text.splitlines() if "/loop.py " in line]
    assert int(loop[3].rstrip("%")) > 70


@pytest.mark.release
def test_the_page_says_what_is_reached() -> None:
    """Each file as far as the page says at least, and all that is never called is listed."""
    page = PAGE.read_text().partition("What histories reach")[2]
    status, text = simulate("--seeds 0:60 --coverage")
    assert status == 0, text
    ((lines, missed),) = re.findall(r"^TOTAL +(\d+) +(\d+)", text, re.MULTILINE)
    assert int(missed) < 0.05 * int(lines)
    reached = {line.split()[0]: line.split() for line in text.splitlines() if ".py " in line}
    promised = dict(re.findall(r"^``(\S+\.py)`` +(\d+) %", page, re.MULTILINE))
    assert promised.keys() == {path for path in reached if not path.endswith("/__init__.py")}
    for path, least in promised.items():
        assert int(reached[path][3].rstrip("%")) >= int(least), path
    lists = re.findall(r"^never called in \S+: (.*)", text, re.MULTILINE)
    assert lists
    unlisted = [each for some in lists for each in some.split(", ") if f"``{each}``" not in page]
    assert not unlisted


@pytest.mark.matrix
def test_a_failure_is_told_in_few_lines_and_fails_again() -> None:
    status, text = simulate("--seeds 0:1 --fault claims_do_not_end")
    assert status == 1
    _, _, story = text.partition("its story:\n")
    *lines, command, _ = story.splitlines()
    assert 3 < len(lines) < MOST_LINES
    arguments = command.partition("tests.simulation ")[2]
    status, text = simulate(arguments)
    assert status == 1
    assert "nobody holds it" in text
    # It is the fault that was put back that fails.
    assert simulate(arguments.replace("--fault claims_do_not_end", ""))[0] == 0
