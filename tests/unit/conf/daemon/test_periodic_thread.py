# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A periodic thread works again and again, until it is stopped."""

from threading import Event

import pytest

from conf.daemon.periodic_thread import PeriodicThread
from tests.fixtures.daemons.process import PATIENCE


@pytest.mark.parametrize(("interval", "at_once"), [(0.001, False), (0.001, True), (600, True)])
def test_it_works_after_each_interval_or_at_once(interval, at_once):
    worked = Event()
    thread = PeriodicThread("work", worked.set, interval, at_once=at_once)
    thread.start()
    assert worked.wait(PATIENCE)
    thread.stop()
    assert not thread.is_alive()


def test_a_stop_waits_no_longer_than_its_timeout():
    begun, may_end = Event(), Event()

    def work():
        begun.set()
        may_end.wait(PATIENCE)

    thread = PeriodicThread("work", work, 600, at_once=True)
    thread.start()
    assert begun.wait(PATIENCE)
    thread.stop(0)
    assert thread.is_alive()
    may_end.set()
    thread.stop()
    assert not thread.is_alive()
