# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of decisions that are explained for pages: what is read once, and what is given up."""

import math
import time

import pytest

from inventory.decisions import find
from scheduler.history.saved_decision import from_database
from scheduler.operators.status_pages.errors import TooLate
from scheduler.operators.status_pages.explaining import Explainer, Question


@pytest.fixture
def rows(fleet):
    """The rows of the two decisions, the newest first."""
    return fleet.database.read(lambda c: [*find(c, "2", 1), *find(c, "1", 1)])


@pytest.fixture
def read(fleet):
    """Reads the database, and counts the decisions that it has read."""

    def read(query, *arguments):
        read.decisions += query is from_database
        return fleet.database.read(lambda connection: query(connection, *arguments))

    read.decisions = 0
    return read


def test_hosts_of_a_decision_are_read_once_for_all_questions_about_it(rows, read):
    explainer, row = Explainer(), rows[1]
    for index in (0, 1):
        for host in (None, "compute-00001"):
            assert explainer.explain(read, row, Question(row.id, index, host), math.inf).same
    assert read.decisions == 1
    assert explainer.explain(read, rows[0], Question(rows[0].id), math.inf).same
    assert read.decisions == 2


def test_a_question_that_took_too_long_is_answered_from_what_was_read_for_it(rows, read):
    explainer, row = Explainer(), rows[1]
    until = time.monotonic() + 1.0

    def slow(*asked):
        found = read(*asked)
        while time.monotonic() <= until:
            pass
        return found

    with pytest.raises(TooLate):
        explainer.explain(slow, row, Question(row.id), until)
    assert explainer.explain(read, row, Question(row.id), math.inf).same
    assert read.decisions == 1
