# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of benchmarks.sizing, and that the page about sizing has what was measured."""

import re

import pytest

from benchmarks import sizing
from benchmarks.document import LATEST, Document
from benchmarks.figures import OURS, Figure
from tests import guides
from tests.unit.benchmarks.made_up import a_document

CASE = {"claims": True, "backend": "threading", "workers": 1, "schedulers": 1, "instances": 1}
PROCESSOR = {
    "scheduler": "select, processor",
    "database": "select, processor of the database",
    "broker": "select, processor of the broker",
}


def a_figure(what, turn, **case):
    return Figure(what, OURS, "", [turn], CASE | case)


def test_a_row_has_what_a_way_to_serve_makes_of_a_request():
    figures = [
        a_figure("select, rate", 400.0, workers=2),
        a_figure("select, rate", 300.0),
        a_figure("select", 90.5),
        a_figure("conflicts", 0.25),
        *(a_figure(name, ms) for name, ms in zip(PROCESSOR.values(), (3, 0.5, 0.25), strict=True)),
        a_figure("select, rate", 310.0, backend="eventlet"),
        a_figure("select, rate", 90.0, instances=10),
    ]
    told = sizing.told(a_document(figures))
    cells = re.findall(r"^   [* ] -(.*)$", told, re.MULTILINE)
    width = len(sizing.HEADS)
    rows = [[each.strip() for each in cells[at : at + width]] for at in range(0, len(cells), width)]
    assert rows == [
        [*sizing.HEADS],
        ["yes", "1", "1", "300", "90.5", "0.25", "3", "0.5", "0.25"],
        ["yes", "1", "2", "400", "", "", "", "", ""],
    ]


def test_the_page_shows_the_latest_run():
    path = LATEST.with_suffix(".sizing.rst")
    assert path.read_text() == sizing.told(Document.read(LATEST))


@pytest.mark.parametrize("daemon", PROCESSOR)
def test_what_the_page_plans_with_is_what_was_measured(daemon):
    page = guides.page("admin/sizing")
    (stated,) = re.findall(rf"^   {daemon}\s+([\d.]+) ms", page, re.MULTILINE)
    figures = Document.read(LATEST).figures
    (measured,) = (
        each.median
        for each in figures
        if (each.what, each.who) == (PROCESSOR[daemon], OURS) and CASE.items() <= each.case.items()
    )
    assert float(stated) == pytest.approx(measured, rel=0.4)
