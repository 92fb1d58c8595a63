# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The page shows what the latest run of the benchmarks has found, each case in a row."""

from benchmarks import tables
from benchmarks.document import LATEST, Document
from benchmarks.figures import NOVA
from tests.unit.benchmarks.made_up import a_document, decided


def rows_of(text, title):
    """Return the cells of the table of a title."""
    lines = text.split(f".. list-table:: {title}\n")[1].split("\n\n")[1].splitlines()
    rows = []
    for line in lines:
        if line.startswith("   * -"):
            rows.append([])
        rows[-1].append(line[7:])
    return rows


def test_the_page_shows_the_latest_run():
    assert LATEST.with_suffix(".rst").read_text() == tables.report(Document.read(LATEST))


def test_each_case_has_a_row_that_says_what_is_special_about_it():
    figures = [
        decided(100, 1, 1.0, 2.0, 4.0),
        decided(100, 1, 200.0, 400.0, 800.0, who=NOVA),
        decided(10_000, 1, 0.1234),
        decided(100, 1, 5.0, list="comparable"),
        decided(100, 1, 6.0, grouped=0.1),
    ]
    text = tables.report(a_document(figures))
    assert rows_of(text, "decide, ms (instances 1, weighing spread, aggregate sets 40)") == [
        ["hosts", "grouped", "but", "ours (middle half)", "Nova (middle half)", "Nova / ours"],
        ["100", "0", "", "2 (1.5 to 3)", "400 (300 to 600)", "200"],
        ["10,000", "0", "", "0.123", "", ""],
        ["100", "0", "list comparable", "5", "", ""],
        ["100", "0.1", "", "6", "", ""],
    ]
