# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The guides of the documentation as tests read them: pages, console lines, statements of SQL."""

import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "doc" / "source"
_CONSOLE = re.compile(r"^( *)\.\. code-block:: console\n(?:\1 +:.*\n)*\n((?:\1 +.*\n|\n)+)", re.M)


def page(name: str) -> str:
    """Return the text of a page such as admin/deploy."""
    return (SOURCE / f"{name}.rst").read_text()


def console_lines(text: str) -> Iterator[str]:
    """Yield what a page tells to type, without prompts; a line that goes on is one line."""
    for block in _CONSOLE.finditer(text):
        joined = re.sub(r"\\\n\s*(?:> )?", "", block[2])
        for line in joined.splitlines():
            prompt, _, typed = line.strip().partition(" ")
            if prompt in ("$", "#"):
                yield typed.strip()


def statements(name: str) -> list[str]:
    """Return the statements of a file of SQL such as admin/grants."""
    lines = (SOURCE / f"{name}.sql").read_text().splitlines()
    text = "\n".join(line for line in lines if not line.startswith("--"))
    return [each.strip() for each in text.split(";") if each.strip()]


def table_rows(text: str, title: str) -> list[dict[str, str]]:
    """Return the rows of the first simple table of a page that has a column of this title."""
    for table in re.finditer(r"^(=+(?: =+)+)\n(.*)\n\1\n((?:.+\n)+?)\1\n", text, re.M):
        places = [(found.start(), found.end()) for found in re.finditer("=+", table[1])]
        titles = [table[2][first:last].strip() for first, last in places]
        if title in titles:
            rows = ([line[first:last] for first, last in places] for line in table[3].splitlines())
            return [dict(zip(titles, map(str.strip, row), strict=True)) for row in rows]
    raise LookupError(f"no table with a column {title}")
