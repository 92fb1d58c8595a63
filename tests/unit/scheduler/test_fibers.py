# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.fibers."""

import gc
import math
import threading
import weakref
from concurrent.futures import Future
from threading import Event

import pytest
from greenlet import getcurrent
from oslo_context import context as oslo

from scheduler import fibers
from scheduler.fibers import Fibers, result_of

LONG = 30.0


@pytest.fixture
def fleet():
    return Fibers()


def all_of(*futures):
    return [each.result(LONG) for each in futures]


def test_the_result_and_the_error_of_work_are_those_of_its_future(fleet):
    error = ValueError("no")

    def fail():
        raise error

    assert fleet.run(lambda: 5).result(LONG) == 5
    assert fleet.run(fail).exception(LONG) is error
    # The thread has outlived both.
    assert fleet.run(lambda: 6).result(LONG) == 6


def test_all_work_is_done_by_one_thread_in_the_order_in_which_it_came(fleet):
    done = []
    futures = [fleet.run(lambda n=n: done.append((n, threading.get_ident()))) for n in range(50)]
    all_of(*futures)
    assert [n for n, _ in done] == [*range(50)]
    (thread,) = {thread for _, thread in done}
    assert thread != threading.get_ident()


def test_others_go_on_while_one_waits(fleet):
    first, second = Future(), Future()
    steps = []

    def wait_for(name, future):
        steps.append(f"{name} begins")
        steps.append(f"{name} has {result_of(future)}")

    futures = [
        fleet.run(lambda: wait_for("one", first)),
        fleet.run(lambda: wait_for("two", second)),
    ]
    all_of(fleet.run(lambda: second.set_result("b")), futures[1])
    first.set_result("a")
    all_of(*futures)
    assert steps == ["one begins", "two begins", "two has b", "one has a"]


def test_one_that_waited_long_enough_hears_of_it_once(fleet):
    never, later = Future(), Future()
    heard = []

    def wait():
        for future, seconds in ((never, 0.01), (later, LONG)):
            try:
                heard.append(result_of(future, seconds))
            except TimeoutError:
                heard.append("late")
                # What it waited for first must not wake it from what it waits for now.
                never.set_result("too late")

    future = fleet.run(wait)
    never.result(LONG)
    all_of(fleet.run(lambda: None), fleet.run(lambda: later.set_result("in time")), future)
    assert heard == ["late", "in time"]


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.inf])
def test_what_is_there_already_is_not_waited_for(fleet, seconds):
    there = Future()
    there.set_result("there")
    assert result_of(there, seconds) == "there"
    assert fleet.run(lambda: result_of(there, seconds)).result(LONG) == "there"


@pytest.mark.parametrize("in_fiber", [True, False])
def test_an_error_and_the_end_of_patience_are_raised_where_it_is_waited(fleet, in_fiber):
    failed, never = Future(), Future()
    failed.set_exception(KeyError("k"))
    run = fleet.run if in_fiber else _run_here
    assert isinstance(run(lambda: result_of(failed)).exception(LONG), KeyError)
    assert isinstance(run(lambda: result_of(never, 0.01)).exception(LONG), TimeoutError)


def _run_here(work):
    future = Future()
    try:
        future.set_result(work())
    except Exception as error:
        future.set_exception(error)
    return future


def test_one_that_sleeps_holds_up_no_other(fleet):
    asleep = fleet.run(lambda: fibers.sleep(LONG))
    assert fleet.run(lambda: 5).result(LONG) == 5
    assert not asleep.done()
    assert (
        all_of(*(run(lambda: fibers.sleep(0.01)) for run in (fleet.run, _run_here))) == [None] * 2
    )


def test_each_has_the_context_of_its_own_request_in_the_log(fleet):
    gates = [Future(), Future()]

    def named(number):
        oslo.RequestContext(request_id=f"req-{number}", overwrite=True)
        result_of(gates[number])
        return oslo.get_current().request_id

    futures = [fleet.run(lambda n=n: named(n)) for n in range(2)]
    for gate in gates:
        gate.set_result(None)
    assert all_of(*futures) == ["req-0", "req-1"]


def test_what_may_begin_when_all_wait_begins_once_after_all_that_could_go_on(fleet):
    begun, gate = [], Future()

    def submit(number):
        if not number:
            fleet.run_when_idle(lambda: (begun.append([*submitted]), gate.set_result(None)))
        submitted.append(number)
        result_of(gate)

    submitted = []
    go = Event()
    # None begins before all are there.
    first = fleet.run(lambda: go.wait(LONG))
    futures = [fleet.run(lambda n=n: submit(n)) for n in range(8)]
    go.set()
    all_of(first, *futures)
    assert begun == [[*range(8)]]


def test_fibers_go_on_beside_what_takes_long(fleet, monkeypatch):
    monkeypatch.setattr(fibers, "GRACE", 0.0)
    end = Event()
    fleet.run_when_idle(lambda: end.wait(LONG))
    assert fleet.run(lambda: 5).result(LONG) == 5
    end.set()


def test_nothing_is_kept_of_what_is_over_though_its_time_has_not_come(fleet):
    class Kept:
        pass

    kept, gate = Kept(), Future()
    gone = weakref.ref(kept)

    def wait(held):
        fleet.run(lambda: gate.set_result(None))
        result_of(gate, LONG)
        assert isinstance(getcurrent(), fibers.Fiber)
        return type(held)

    work = fleet.run(lambda held=kept: wait(held))
    del kept
    assert work.result(LONG) is Kept
    # The thread has let go of the first when it is at the second.
    fleet.run(lambda: None).result(LONG)
    gc.collect()
    assert gone() is None
