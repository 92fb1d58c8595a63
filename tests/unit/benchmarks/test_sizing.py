# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of benchmarks.sizing, and that the page about sizing has what was measured."""

import re

import pytest

from benchmarks import sizing
from benchmarks.document import LATEST, Document
from benchmarks.figures import OURS
from tests import guides

CASE = {"claims": True, "backend": "threading", "workers": 1, "schedulers": 1, "instances": 1}
PROCESSOR = {
    "scheduler": "select, processor",
    "database": "select, processor of the database",
    "broker": "select, processor of the broker",
}


def test_the_page_shows_the_latest_run():
    path = LATEST.with_suffix(".sizing.rst")
    assert path.read_text() == sizing.report(Document.read(LATEST))


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
