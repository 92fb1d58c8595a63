# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the command lines in the documentation that need nothing to run."""

import re
from pathlib import Path

import pytest
from cliff.commandmanager import CommandManager

from tests.fixtures import documented, ways

ALL = [step for page in documented.pages() for step in documented.steps(page)]
COMMANDS = [step for step in ALL if step.kind == "command"]
INLINE = re.compile(r"``(berthmaster(?: [^`]+)?)``")


def test_every_command_line_has_a_way_to_be_tried():
    assert len(COMMANDS) > 50
    unclaimed = [
        f"{step.place}: {each}"
        for step in COMMANDS
        for each in documented.programs(step.text)
        if each not in ways.CLAIMED
    ]
    assert unclaimed == []
    assert not ways.RUN & ways.DAEMONS
    assert not (ways.RUN | ways.DAEMONS) & ways.LOOKED_AT.keys()


def test_every_block_of_commands_can_be_pasted():
    assert {step.place: step.name for step in ALL if step.kind == "wrong"} == {}


PAGE = """
.. code-block:: shell

   berthmaster host list
   # What comes now is refused.
   berthmaster select --memory-mb 999999

.. code-block:: output

   No valid host was found.

.. not run: there is no Nova here

.. code-block:: shell

   berthmaster nova check
"""


def read(tmp_path: Path, text: str) -> list[tuple[str, str]]:
    """Return kind and text of the steps of a page."""
    path = tmp_path / "page.rst"
    path.write_text(text)
    return [(step.kind, step.text) for step in documented.steps(str(path))]


def test_commands_are_read_with_the_output_below_them(tmp_path):
    assert read(tmp_path, PAGE) == [
        ("command", "berthmaster host list"),
        ("command", "berthmaster select --memory-mb 999999"),
        ("not run", "berthmaster nova check"),
    ]
    refused = documented.steps(str(tmp_path / "page.rst"))[1]
    assert refused.output == ("No valid host was found.",)


@pytest.mark.parametrize(
    "wrong",
    [
        ".. code-block:: shell\n\n   $ berthmaster host list",
        ".. code-block:: shell\n\n   # berthmaster host list",
        ".. code-block:: shell\n\n   echo\n   $ berthmaster host list",
        ".. code-block:: console\n\n   $ berthmaster host list",
        "Type::\n\n   $ berthmaster host list",
        "Type::\n\n   berthmaster host list",
        "Text.\n\n.. code-block:: output\n\n   No valid host was found.",
    ],
)
def test_what_cannot_be_pasted_is_seen(tmp_path, wrong):
    assert "wrong" in [kind for kind, _ in read(tmp_path, wrong)]


def test_no_block_hides_commands():
    texts = [step for step in ALL if step.kind == "text"]
    first = {step.place: step.text.lstrip("$# ").split(maxsplit=1)[0] for step in texts}
    names = {place: word.rsplit("/", 1)[-1] for place, word in first.items()}
    assert {place: name for place, name in names.items() if name in ways.CLAIMED} == {}


def test_commands_that_are_not_run_are_there_with_their_options():
    manager = CommandManager("berthmaster.cli")
    words = {step.place: step.text.split() for step in ALL if step.kind == "not run"}
    ours = {place: each[1:] for place, each in words.items() if each[0] == "berthmaster"}
    wrong = {place: why for place, each in ours.items() if (why := unknown(manager, each))}
    assert ours
    assert wrong == {}


def test_every_command_line_is_one_for_the_shell():
    wrong = {step.place: documented.complaint(step.text) for step in COMMANDS}
    assert {place: why for place, why in wrong.items() if why} == {}


def test_commands_named_in_a_sentence_are_there_with_their_options():
    manager = CommandManager("berthmaster.cli")
    said = {
        (page, " ".join(text.split()))
        for page in documented.pages()
        for text in INLINE.findall((documented.ROOT / page).read_text())
    }
    assert len(said) > 10
    wrong = {each: why for each in said if (why := unknown(manager, each[1].split()[1:]))}
    assert wrong == {}


def unknown(manager: CommandManager, words: list[str]) -> str:
    """Return what of a command in a sentence the program does not know."""
    name = [word for word in words if word == word.lower()]
    # Those of cliff, for all programs.
    if not words or words[0].startswith("-") or words[0] in ("help", "complete"):
        return ""
    # A sentence may name a kind of commands, such as aggregate.
    if any(command.split()[: len(name)] == name for command, _ in manager):
        return ""
    try:
        command, _, rest = manager.find_command(words)
    except ValueError as error:
        return str(error)
    options = command(None, None).get_parser("").format_help()
    return " ".join(each for each in rest if each.startswith("--") and each not in options)
