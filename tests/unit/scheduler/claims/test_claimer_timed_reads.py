# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.claims.claimer.TimedReads."""

import math
from threading import Event

import pytest

from inventory.engine import DatabaseUnavailable
from scheduler.cached_thread_pool import CachedThreadPool
from scheduler.claims.claimer import TimedReads

PATIENCE = 30.0


class Answering:
    """A database that answers when it may."""

    def __init__(self):
        self.may_answer = Event()

    def read(self, work):
        assert self.may_answer.wait(PATIENCE)
        return work("connection")


@pytest.mark.parametrize("seconds", [PATIENCE, math.inf])
def test_what_is_read_in_time_is_returned(seconds):
    database = Answering()
    database.may_answer.set()
    reads = TimedReads(database, CachedThreadPool(), lambda: seconds)
    assert reads.read(str.upper) == "CONNECTION"


@pytest.mark.parametrize(("seconds", "said"), [(0.05, r"0\.1"), (-7.0, r"0\.0")])
def test_nobody_waits_longer_than_it_wants_to(seconds, said):
    database = Answering()
    reads = TimedReads(database, CachedThreadPool(), lambda: seconds)
    with pytest.raises(DatabaseUnavailable, match=f"no answer within {said} s"):
        reads.read(str.upper)
    database.may_answer.set()
