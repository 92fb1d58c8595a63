# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.claims.claimer.TimedReads."""

import math
from threading import Event

import pytest

from inventory.database_errors import DatabaseUnavailable
from scheduler.cached_thread_pool import CachedThreadPool
from scheduler.claims import claimer
from scheduler.claims.claimer import TimedReads, TooLate
from tests.fixtures.daemons.process import PATIENCE


class Answering:
    """A database that answers when it may."""

    def __init__(self):
        self.may_answer = Event()
        self.answered_at = -math.inf

    def read(self, work):
        assert self.may_answer.wait(PATIENCE)
        return work("connection")


@pytest.mark.parametrize("seconds", [PATIENCE, math.inf])
def test_what_is_read_in_time_is_returned(seconds):
    database = Answering()
    database.may_answer.set()
    reads = TimedReads(database, CachedThreadPool(), lambda: seconds)
    assert reads.read(str.upper) == "CONNECTION"


@pytest.mark.parametrize("seconds", [0.05, -7.0])
def test_a_database_is_not_blamed_where_its_caller_waits_too_shortly(seconds):
    database = Answering()
    reads = TimedReads(database, CachedThreadPool(), lambda: seconds)
    with pytest.raises(TooLate):
        reads.read(str.upper)
    database.may_answer.set()


def test_a_database_is_not_blamed_that_answers_others(monkeypatch):
    monkeypatch.setattr(claimer, "LEAST_SILENCE", 0.0)
    database = Answering()
    database.answered_at = math.inf
    reads = TimedReads(database, CachedThreadPool(), lambda: 0.05)
    with pytest.raises(TooLate):
        reads.read(str.upper)
    database.may_answer.set()


def test_a_database_is_blamed_that_answers_nobody(monkeypatch):
    monkeypatch.setattr(claimer, "LEAST_SILENCE", 0.0)
    database = Answering()
    reads = TimedReads(database, CachedThreadPool(), lambda: 0.05)
    with pytest.raises(DatabaseUnavailable, match=r"no answer within 0\.1 s"):
        reads.read(str.upper)
    database.may_answer.set()
