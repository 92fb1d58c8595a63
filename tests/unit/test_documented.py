# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the command lines in the documentation that need nothing to run."""

import re

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


def test_no_block_hides_commands():
    assert [step.place for step in ALL if step.kind == "unprompted"] == []
    texts = [step for step in ALL if step.kind == "text"]
    first = {step.place: step.text.split(maxsplit=1)[0].rsplit("/", 1)[-1] for step in texts}
    assert {place: word for place, word in first.items() if word in ways.CLAIMED} == {}


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
