# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the completion of the command berthmaster, in a real bash."""

import os
import subprocess
import sys
from pathlib import Path

FILE = Path(__file__).parents[2] / "etc" / "bash-completion" / "berthmaster"
# Asks for one completion after the other, in one bash: to load the file starts the program.
ASK = """
source "$1" || exit
for line in "${@:2}"; do
    read -ra COMP_WORDS <<<"$line"
    [[ $line == *' ' ]] && COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _berthmaster
    echo "${COMPREPLY[@]}"
done
complete -p berthmaster
"""


def bash(*arguments: str) -> list[str]:
    """Return the lines that a bash without anybody's settings prints."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "--norc", *arguments],
        env={"PATH": path, "LANG": "C.UTF-8"},
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_the_file_and_what_the_program_prints_are_for_bash():
    bash("-n", str(FILE))
    script = "\n".join(bash("-c", "berthmaster complete"))
    bash("-n", "-c", script)


def test_commands_and_their_options_are_completed():
    lines = [
        "berthmaster ho",
        "berthmaster host ",
        "berthmaster select --mem",
        "berthmaster host m",
    ]
    *answers, registered = bash("-c", ASK, "bash", str(FILE), *lines)
    assert answers[0] == "host"
    assert {"describe", "list", "maintenance", "show"} <= set(answers[1].split())
    assert answers[2:] == ["--memory-mb", "maintenance"]
    assert registered == "complete -F _berthmaster berthmaster"
