# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The guides of the documentation as tests read them: pages, their tables, statements of SQL.

Their command lines are for tests/fixtures/documented.py.
"""

import re

from tests.fixtures.documented import SOURCE


def page(name: str) -> str:
    """Return the text of a page such as admin/installation."""
    return (SOURCE / f"{name}.rst").read_text()


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
