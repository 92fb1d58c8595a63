# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.request_trace: which warnings of plug-ins are written into the log."""

import pytest

from scheduler.decision.types import Decision
from scheduler.request_trace import MAX_WARNINGS, PERIOD, RequestLog, RequestTrace
from scheduler.wire.context import RequestContext


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def warned(caplog):
    """Return a function that ends a request with warnings, and returns which were written."""
    clock = Clock()
    log = RequestLog(clock)

    def ending(*warnings, after=0.0):
        clock.now += after
        caplog.clear()
        trace = RequestTrace(RequestContext(), ["u"], 0.0)
        trace.decision = Decision(warnings=warnings)
        log.on_finished(trace)
        return caplog.messages

    return ending


def test_each_is_written_once(warned):
    assert warned("one", "two") == ["one", "two"]
    assert warned("two", "three") == ["three"]
    assert warned("one", after=10 * PERIOD) == []


def test_too_many_are_left_out_for_a_time_and_not_for_ever(warned):
    many = [str(number) for number in range(MAX_WARNINGS + 5)]
    *written, last = warned(*many)
    assert written == many[:MAX_WARNINGS]
    assert last.startswith("Plug-ins gave 1000 different warnings: further warnings are not logged")
    assert warned("new") == []
    assert warned("new", after=PERIOD - 1) == []
    assert warned("new", after=1) == ["new"]
    assert warned("new") == []
