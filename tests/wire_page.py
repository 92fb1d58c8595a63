# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The tables of the page about the wire, as the tests that keep them true read them."""

import re
from dataclasses import dataclass, field
from pathlib import Path

PAGE = Path(__file__).parents[1] / "doc" / "source" / "reference" / "rpc.rst"
USED, CARRIED, IGNORED = "used", "carried", "ignored"
READ = {USED, CARRIED}

_SECTION = re.compile(r"^(\S.*)\n([-=])\2{2,}\n", re.MULTILINE)
_ROW = re.compile(r"^   \* - (.*?)(?=^   \* - |\Z)", re.MULTILINE | re.DOTALL)
_CELL = re.compile(r"\n     - ")
_NAME = re.compile(r"``([^`]+)``")
# How the tables about fields begin; there are others.
_HEADS = {"field", "entry", "key"}


@dataclass(slots=True)
class Section:
    """What is said of one class, context or dictionary: for each field one word."""

    version: str
    fields: dict[str, str] = field(default_factory=dict)

    def said_to_be(self, words: set[str]) -> set[str]:
        """Return the fields of which one of the words is said."""
        return {name for name, word in self.fields.items() if word in words}


def read() -> dict[str, Section]:
    """Return the sections about fields by their names, those of classes without the version."""
    parts = _SECTION.split(PAGE.read_text())
    found = {}
    for title, text in zip(parts[1::3], parts[3::3], strict=True):
        head, *rows = _rows(text) or [[""]]
        if head[0] in _HEADS:
            name, _, version = title.rpartition(" ")
            named = re.fullmatch(r"\d+\.\d+", version)
            found[name if named else title] = _section(version if named else "", rows)
    return found


def _rows(text: str) -> list[list[str]]:
    return [[" ".join(cell.split()) for cell in _CELL.split(row)] for row in _ROW.findall(text)]


def _section(version: str, rows: list[list[str]]) -> Section:
    found = Section(version)
    for names, word, *_ in rows:
        for each in _NAME.findall(names):
            assert each not in found.fields, f"{each} is there twice"
            found.fields[each] = word
    return found
