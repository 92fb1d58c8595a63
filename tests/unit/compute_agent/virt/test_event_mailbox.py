# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Notes end the wait for them, from any thread and in any process."""

import gc
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from threading import Thread

import pytest

from compute_agent.virt.event_mailbox import EventMailbox
from tests.fixtures.daemons.process import PATIENCE, wait_until


@pytest.fixture
def changes() -> Iterator[EventMailbox]:
    made = EventMailbox()
    yield made
    made.close()


class Waiter(Thread):
    """Waits once in a thread of its own."""

    def __init__(self, changes: EventMailbox, debounce: float = 0.0) -> None:
        super().__init__(daemon=True)
        self._changes = changes
        self._debounce = debounce
        self.found: frozenset[str] | None = None
        self.start()

    def run(self) -> None:
        self.found = self._changes.wait(None, self._debounce)

    def comes_back(self) -> frozenset[str]:
        self.join(PATIENCE)
        assert self.found is not None
        return self.found


def test_nothing_comes_after_the_time(changes: EventMailbox) -> None:
    for seconds in (0.01, 0.0, -5.0):
        assert changes.wait(seconds) == frozenset()


def test_what_was_noted_before_comes_at_once(changes: EventMailbox) -> None:
    changes.note("a")
    changes.note("b")
    changes.note("a")
    began = time.monotonic()
    assert changes.wait(PATIENCE) == {"a", "b"}
    assert time.monotonic() - began < PATIENCE / 2
    assert changes.wait(0.01) == frozenset()


def test_a_note_ends_a_wait_for_ever(changes: EventMailbox) -> None:
    for note in ("a", "b"):
        waiter = Waiter(changes)
        changes.note(note)
        assert waiter.comes_back() == {note}


def test_notes_of_a_burst_come_together(changes: EventMailbox) -> None:
    waiter = Waiter(changes, debounce=0.5)
    for number in range(1000):
        changes.note(f"{number % 7}")
    assert len(waiter.comes_back()) == 7


def test_no_note_is_lost_between_many_threads_and_one_that_waits(changes: EventMailbox) -> None:
    noted = {f"{thread} {number}" for thread in range(4) for number in range(500)}

    def note(thread: int) -> None:
        for number in range(500):
            changes.note(f"{thread} {number}")

    threads = [Thread(target=note, args=(each,)) for each in range(4)]
    for each in threads:
        each.start()
    found: set[str] = set()
    assert wait_until(lambda: found.update(changes.wait(PATIENCE)) or found == noted)
    for each in threads:
        each.join()


def test_a_wake_ends_a_wait_with_nothing(changes: EventMailbox) -> None:
    changes.wake()
    assert changes.wait(PATIENCE) == frozenset()
    waiter = Waiter(changes)
    changes.wake()
    assert waiter.comes_back() == frozenset()


def test_closing_ends_the_wait_and_every_later_one(changes: EventMailbox) -> None:
    waiter = Waiter(changes)
    assert wait_until(lambda: changes._ours is not None)
    changes.close()
    assert waiter.comes_back() == frozenset()
    assert changes.closed
    changes.close()
    assert changes.wait(None) == changes.wait(PATIENCE) == frozenset()
    # Nobody waits then, and what was noted is handed out all the same.
    changes.note("late")
    assert changes.wait(None, debounce=PATIENCE) == {"late"}


def test_closed_before_anybody_waited(changes: EventMailbox) -> None:
    changes.close()
    assert changes.wait(None) == frozenset()


FORKS = """
import os, sys, time
from compute_agent.virt.event_mailbox import EventMailbox
changes = EventMailbox()
for _ in range(2):
    child = os.fork()
    if child == 0:
        changes.note("mine")
        fine = changes.wait(60) == {"mine"} and not changes.wait(0.01)
        changes.close()
        os._exit(0 if fine and not changes.wait(None) else 1)
    assert os.waitpid(child, 0)[1] == 0
assert not changes.closed
began = time.monotonic()
assert changes.wait(0.2) == frozenset()
assert time.monotonic() - began >= 0.19
"""


def test_a_forked_process_shares_nothing_with_its_parent() -> None:
    """As a worker that ended well and is followed by another one from the same parent."""
    done = subprocess.run(
        [sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr


def test_what_is_dropped_leaves_no_socket_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        EventMailbox().wait(0)
        EventMailbox()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before + 1
