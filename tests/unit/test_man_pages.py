# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests that the man pages say all that the programs say of themselves."""

import re
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

from tests.fixtures.daemons.process import PATIENCE

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "doc" / "source" / "man"
SETTINGS = (ROOT / "doc" / "source" / "conf.py").read_text()
OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")
PROGRAMS = [
    each.name
    for each in distribution("berthmaster").entry_points
    if each.group == "console_scripts"
]
DAEMONS = [name for name in PROGRAMS if name != "berthmaster"]


def of_help(program: str) -> set[str]:
    """Return the options that a program lists, without what is said of them."""
    command = [str(Path(sys.executable).parent / program), "--help"]
    text = subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=PATIENCE
    ).stdout
    heads = [line.split("   ")[0] for line in map(str.strip, text.splitlines()) if line[:1] == "-"]
    return {option for head in heads for option in OPTION.findall(head)}


def with_included(page: str) -> str:
    """Return the source of a page, with the files that it takes in."""
    text = (PAGES / f"{page}.rst").read_text()
    return text + "".join(
        (PAGES / name).read_text() for name in re.findall(r"include:: (\S+)", text)
    )


def test_every_program_has_a_page_that_is_built():
    assert sorted(PROGRAMS) == sorted(path.stem for path in PAGES.glob("*.rst"))
    assert [name for name in PROGRAMS if f'("{name}", ' not in SETTINGS] == []


@pytest.mark.parametrize("program", DAEMONS)
def test_the_page_of_a_daemon_has_its_options_and_no_others(program):
    text = with_included(program).split("\nSignals\n")[0]
    literals = " ".join(re.findall(r"``([^`]+)``", text.split("\nOptions\n")[1]))
    assert set(OPTION.findall(literals)) == of_help(program)


def test_what_commands_have_in_common_and_pages_leave_out_is_said_once():
    left_out = set(OPTION.findall(SETTINGS.split("autoprogram_cliff_ignored")[1]))
    said = set(OPTION.findall((PAGES / "output.txt").read_text()))
    # Of these cliff shows nothing anywhere, or everybody knows them.
    assert left_out - said == {"-h", "--help", "--variable"}
