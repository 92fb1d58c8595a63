# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.single_flight."""

from itertools import count
from threading import Barrier, Event, Lock, Thread

import pytest

from scheduler.single_flight import SingleFlight

LONG = 30.0


class Work:
    """Work that can be held up and that notes when each of its runs begins and ends."""

    def __init__(self):
        self.clock, self.lock = count(), Lock()
        self.began, self.ended = [], []
        self.begun, self.go = Event(), Event()
        self.go.set()
        self.error = None

    def __call__(self):
        self.began.append(self.tick())
        self.begun.set()
        assert self.go.wait(LONG)
        self.ended.append(self.tick())
        if self.error:
            raise self.error

    def tick(self):
        with self.lock:
            return next(self.clock)


@pytest.fixture
def work():
    work = Work()
    yield work
    work.go.set()


def in_threads(number, function):
    threads = [Thread(target=function, daemon=True) for _ in range(number)]
    for thread in threads:
        thread.start()
    return threads


def test_each_call_by_itself_is_a_run_of_its_own(work):
    flight = SingleFlight(work, "test")
    for runs in (1, 2, 3):
        flight.wait(LONG)
        assert len(work.ended) == runs


def test_many_callers_share_runs_and_none_gets_one_that_began_before_it_asked(work):
    flight, callers, times = SingleFlight(work, "test"), 16, 20
    barrier, asked_and_served = Barrier(callers), []

    def call():
        barrier.wait(LONG)
        for _ in range(times):
            asked = work.tick()
            flight.wait(LONG)
            asked_and_served.append((asked, work.tick()))

    for thread in in_threads(callers, call):
        thread.join(LONG)
    assert len(asked_and_served) == callers * times
    runs = list(zip(work.began, work.ended, strict=True))
    for asked, served in asked_and_served:
        assert any(asked < began and ended < served for began, ended in runs)
    assert len(runs) < callers * times


def test_all_who_ask_during_a_run_wait_for_the_one_next_run(work):
    flight = SingleFlight(work, "test")
    work.go.clear()
    (first,) = in_threads(1, lambda: flight.wait(LONG))
    assert work.begun.wait(LONG)
    asked = Barrier(6)

    def ask():
        asked.wait(LONG)
        flight.wait(LONG)

    late = in_threads(5, ask)
    asked.wait(LONG)
    with pytest.raises(TimeoutError):
        # By the time this has waited in vain, the others are waiting as well.
        flight.wait(0.1)
    work.go.set()
    for thread in (first, *late):
        thread.join(LONG)
    assert len(work.ended) == 2


def test_who_joins_is_content_with_a_run_that_has_begun(work):
    flight = SingleFlight(work, "test")
    flight.wait(LONG, joins=True)
    assert len(work.ended) == 1
    work.go.clear()
    work.begun.clear()
    (first,) = in_threads(1, lambda: flight.wait(LONG))
    assert work.begun.wait(LONG)
    with pytest.raises(TimeoutError):
        flight.wait(0, joins=True)
    work.go.set()
    first.join(LONG)
    # Nobody has had another run begun, and that one is over.
    assert len(work.began) == 2
    flight.wait(LONG, joins=True)
    assert len(work.ended) == 3


def test_whoever_waits_too_long_is_told_and_the_work_goes_on(work):
    flight = SingleFlight(work, "test")
    work.go.clear()
    with pytest.raises(TimeoutError, match=r"no answer within 0\.05 s"):
        flight.wait(0.05)
    work.go.set()
    flight.wait(LONG)
    assert len(work.ended) == 2


def test_what_the_work_raises_reaches_its_callers_and_the_next_run_is_a_new_one(work):
    flight = SingleFlight(work, "test")
    work.error = LookupError("nothing there")
    with pytest.raises(LookupError, match="nothing there"):
        flight.wait(LONG)
    work.error = None
    flight.wait(LONG)


class SecondFails(Work):
    """Work of which the second run fails."""

    def __call__(self):
        self.error = LookupError("of the second run") if self.began else None
        super().__call__()


def errors_of_the_first_of_two_callers():
    work, errors = SecondFails(), []
    flight = SingleFlight(work, "test")
    work.go.clear()

    def take():
        try:
            flight.wait(LONG)
        except LookupError as error:
            errors.append(error)

    (first,) = in_threads(1, take)
    assert work.begun.wait(LONG)
    with pytest.raises(TimeoutError):
        flight.wait(0.001)
    work.go.set()
    first.join(LONG)
    return errors


def test_nobody_gets_the_error_of_a_run_that_began_later():
    assert [errors_of_the_first_of_two_callers() for _ in range(100)] == [[]] * 100


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt()])
def test_what_would_end_a_thread_does_not_end_this_one(work, error):
    flight = SingleFlight(work, "hosts")
    work.error = error
    with pytest.raises(RuntimeError, match="hosts was interrupted: "):
        flight.wait(LONG)
    work.error = None
    flight.wait(LONG)
