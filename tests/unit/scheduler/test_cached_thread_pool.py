# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.cached_thread_pool."""

import threading
from threading import Event

import pytest

from scheduler.cached_thread_pool import CachedThreadPool
from tests.fixtures.daemons.process import PATIENCE, wait_until


def test_a_work_has_its_result_or_what_it_raised():
    threads = CachedThreadPool()
    assert threads.run(lambda: 42).result(PATIENCE) == 42
    with pytest.raises(LookupError, match="gone"):
        threads.run(fail).result(PATIENCE)


def fail():
    raise LookupError("gone")


def test_one_thread_is_enough_for_one_work_after_another():
    threads = CachedThreadPool()
    found = {threads.run(threading.get_ident).result(PATIENCE) for _ in range(50)}
    assert len(found) == 1


def test_nobody_waits_for_works_that_hang():
    threads, go_on = CachedThreadPool(), Event()
    hanging = [threads.run(lambda: go_on.wait(PATIENCE)) for _ in range(40)]
    assert threads.run(lambda: 42).result(PATIENCE) == 42
    assert not any(each.done() for each in hanging)
    go_on.set()
    assert all(each.result(PATIENCE) for each in hanging)


def test_a_thread_that_nobody_needs_ends():
    threads = CachedThreadPool(idle_timeout=0.05)
    thread = threads.run(threading.current_thread).result(PATIENCE)
    assert wait_until(lambda: not thread.is_alive())
    assert threads.run(lambda: 42).result(PATIENCE) == 42


def test_no_work_is_lost_to_threads_that_end():
    threads = CachedThreadPool(idle_timeout=0.0)
    assert [threads.run(lambda: 42).result(PATIENCE) for _ in range(300)] == [42] * 300
