# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of benchmarks.tables, and that the page shows what the latest run has found."""

from benchmarks import tables
from benchmarks.document import LATEST, Document, Part
from benchmarks.figures import NOVA, OURS, Figure
from tests.unit.benchmarks.made_up import NOW, a_document, decided


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
    assert LATEST.with_suffix(".rst").read_text() == tables.told(Document.read(LATEST))


def test_each_case_has_a_row_that_says_what_is_special_about_it():
    figures = [
        decided(100, 1, 1.0, 2.0, 4.0),
        decided(100, 1, 200.0, 400.0, 800.0, who=NOVA),
        decided(10_000, 1, 0.1234),
        decided(100, 1, 5.0, list="comparable"),
        decided(100, 1, 6.0, grouped=0.1),
    ]
    text = tables.told(a_document(figures))
    assert rows_of(text, "decide, ms (instances 1, weighing spread, aggregate sets 40)") == [
        ["hosts", "grouped", "but", "ours (middle half)", "Nova (middle half)", "Nova / ours"],
        ["100", "0", "", "2 (1.5 to 3)", "400 (300 to 600)", "200"],
        ["10,000", "0", "", "0.123", "", ""],
        ["100", "0", "list comparable", "5", "", ""],
        ["100", "0.1", "", "6", "", ""],
    ]


def test_what_is_no_time_is_told_side_by_side():
    def a_figure(what, unit, who, turn, strategy):
        return Figure(what, who, unit, [turn, turn], {"fleet": "mixed", "strategy": strategy})

    figures = [
        a_figure("empty", "hosts", OURS, 4.0, "spread"),
        a_figure("vCPUs in use", "%", OURS, 71.5, "spread"),
        a_figure("empty", "hosts", NOVA, 3.0, "defaults"),
        a_figure("vCPUs in use", "%", NOVA, 70.5, "defaults"),
    ]
    figures.append(Figure("growth", OURS, "exponent", [0.5]))
    text = tables.told(a_document(figures))
    assert rows_of(text, "(fleet mixed)") == [
        ["strategy", "who", "empty, hosts", "vCPUs in use, %"],
        ["spread", "ours", "4", "71.5"],
        ["defaults", "Nova", "3", "70.5"],
    ]
    assert rows_of(text.split("70.5")[1].replace("list-table::", "list-table:: "), "") == [
        ["who", "growth, exponent"],
        ["ours", "0.5"],
    ]


def test_machine_verdicts_and_failures_are_told():
    parts = {"view": Part(NOW, "v1", 2.0, failed="status 3: no broker")}
    text = tables.told(a_document([], parts=parts))
    assert "Measured on 2026-01-02: Z80, 2 processors, 1.5 GiB, Linux 6.1, D." in text
    assert "Berthmaster v1, Nova absent." in text
    assert "It has failed: ``status 3: no broker``" in text
    assert "- not measured in this run" in text
    quick = tables.told(a_document([], quick=True))
    assert "A quick look on 2026-01-02" in quick
