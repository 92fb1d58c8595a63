# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the completion of the command berthmaster: keys that are pressed in a real bash."""

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.databases import a_node, migrated, save, serve
from tests.fixtures import availability
from tests.fixtures.terminal import ALL, TAB, typed_lines

FILE = Path(__file__).parents[2] / "etc" / "bash-completion" / "berthmaster"
NAMES = [
    *("east", "zone a", "zone b", "it's", 'quo"te', "$(touch x)", "`touch y`", "rack:1", "rack:2"),
    *("eq=1", "at@home", "ex!cl", "ünder", "back\\slash", "pa(r", "se;mi", "*"),
]
# Answers as the program does, and writes down what it was asked.
STAND_IN = """#!/bin/bash
echo "${*@Q}" >>asked
case $3 in
    *--zone) printf '%s\\n' names "${@:0:0}" NAMES ;;
    *--file) echo files ;;
    *--state) printf '%s\n' lists up down disabled ;;
    *) [[ $4 ]] && printf '%s\\n' words --zone --zoom || printf '%s\\n' words host hollow list ;;
esac
"""
ZONE = "berthmaster host --zone "
# What becomes of the beginning of a name, as a word of its own and behind "--zone=".
BECOMES = {
    "zo": "zone\\ ",
    "zone\\ b": "zone\\ b ",
    '"zone b': '"zone b" ',
    "'zone b": "'zone b' ",
    "it": "it\\'s ",
    '"it': '"it\'s" ',
    "'it": "'it'\\''s' ",
    "quo": 'quo\\"te ',
    '"quo': '"quo\\"te" ',
    "\\$": "\\$\\(touch\\ x\\) ",
    "$": "\\$\\(touch\\ x\\) ",
    '"\\$': '"\\$(touch x)" ',
    "'$": "'$(touch x)' ",
    "\\`": "\\`touch\\ y\\` ",
    "ra": "rack:",
    "rack:2": "rack:2 ",
    '"rack:2': '"rack:2" ',
    "eq=": "eq=1 ",
    "at@": "at@home ",
    "ex": "ex\\!cl ",
    # The history would expand it.
    '"ex': '"ex',
    "ü": "ünder ",
    "back": "back\\\\slash ",
    "back\\\\": "back\\\\slash ",
    "pa": "pa\\(r ",
    "se": "se\\;mi ",
    "\\*": "\\* ",
}


@pytest.fixture(params=["plain", "with the package"])
def completion(request, tmp_path):
    """The file, as a user's bashrc has it, or as the package bash-completion finds it."""
    if request.param == "plain":
        return FILE
    availability.require(availability.BASH_COMPLETION)
    found = tmp_path / "xdg" / "bash-completion" / "completions" / "berthmaster"
    found.parent.mkdir(parents=True)
    found.write_text(FILE.read_text())
    return next(iter(availability.BASH_COMPLETION.files))


@pytest.fixture
def press(tmp_path, completion):
    """Return a function that types lines with a stand-in for the program."""
    program = tmp_path / "bin" / "berthmaster"
    program.parent.mkdir()
    names = " ".join("'" + each.replace("'", "'\\''") + "'" for each in NAMES)
    program.write_text(STAND_IN.replace('"${@:0:0}" NAMES', names))
    program.chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    path = os.pathsep.join([str(program.parent), os.environ["PATH"]])
    environment = {"PATH": path, "XDG_DATA_HOME": str(tmp_path / "xdg"), "HOME": str(home)}

    def typed(*lines):
        return typed_lines(lines, completion, home, environment)

    typed.home = home
    return typed


def test_the_file_is_for_bash():
    subprocess.run(["bash", "-n", FILE], check=True)


def test_what_begins_as_typed_is_completed(press):
    assert press(
        f"berthmaster ho{TAB}",
        f"berthmaster hos{TAB}",
        f"berthmaster {ALL}",
        f"berthmaster --zo{TAB}",
        f"berthmaster --zon{TAB}",
        f"berthmaster x{TAB}",
        f"{ZONE}ea{TAB}",
        f"berthmaster host --zone=ea{TAB}",
        f"berthmaster host --file /us{TAB}",
    ) == [
        "berthmaster ho",
        "berthmaster host ",
        "berthmaster hollow host list ",
        "berthmaster --zo",
        "berthmaster --zone ",
        "berthmaster x",
        f"{ZONE}east ",
        "berthmaster host --zone=east ",
        "berthmaster host --file /usr/",
    ]


@pytest.mark.parametrize("before", [ZONE, f"{ZONE[:-1]}="])
def test_names_are_quoted_and_never_evaluated(press, before):
    lines = press(*(f"{before}{typed}{TAB}" for typed in BECOMES))
    assert dict(zip(BECOMES, (line.removeprefix(before) for line in lines), strict=True)) == BECOMES
    assert {each.name for each in press.home.iterdir()} == {"asked", "bashrc", "kept"}


@pytest.mark.parametrize("before", ["berthmaster host --state ", "berthmaster host --state="])
def test_further_words_of_a_list_are_completed(press, before):
    assert press(
        *(f"{before}{each}{TAB}" for each in ("do", "up,do", "up,disabled,do", "up,u"))
    ) == [f"{before}{each}" for each in ("down ", "up,down ", "up,disabled,down ", "up,u")]


def test_what_is_typed_is_never_evaluated(press):
    hostile = [
        "$(touch x)",
        "`touch x`",
        "a[$(touch x)]",
        "']$(touch x)",
        '"$(touch x)"',
        "x;touch x",
    ]
    for each in hostile:
        press(f"berthmaster {each} --zone ea{TAB}", f"berthmaster --zone {each}{TAB}")
    assert {each.name for each in press.home.iterdir()} == {"asked", "bashrc", "kept"}


def test_the_program_is_asked_once_for_all_words_of_a_place(press):
    press(f"berthmaster ho{TAB}", f"berthmaster li{TAB}", f"{ZONE}zo{TAB}{TAB}", f"{ZONE}ea{TAB}")
    asked = (press.home / "asked").read_text().splitlines()
    assert asked == ["'complete' 'words' 'berthmaster'",
                     "'complete' 'words' $'berthmaster\\nhost\\n--zone'"]  # fmt: skip


def test_the_program_completes_the_names_of_hosts(tmp_path):
    with closing(migrated(tmp_path)) as database:
        save(database, *map(a_node, ("rack:1", "rack:2", "spare $(touch x)")))
        serve(database, "rack:1")
    config = tmp_path / "my.conf"
    url = f"sqlite:///{tmp_path}/inventory.sqlite"
    config.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n[database]\nconnection = {url}\n")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    home = tmp_path / "home"
    home.mkdir()
    show = "berthmaster --config-file ../my.conf host show "
    lines = typed_lines([f"{show}ra{TAB}", f"{show}s{TAB}"], FILE, home, {"PATH": path})
    assert lines == [f"{show}rack:", f"{show}spare\\ \\$\\(touch\\ x\\) "]
    assert not (home / "x").exists()
