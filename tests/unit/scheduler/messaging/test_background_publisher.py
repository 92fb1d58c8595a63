# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Items are sent in batches, in order, again after a failure, and within a timeout at the end."""

import logging
import time
from collections.abc import Iterator
from threading import Event

import pytest

from scheduler.messaging.background_publisher import BackgroundPublisher
from tests.fixtures.daemons.process import PATIENCE, wait_until


class Letters(BackgroundPublisher[str]):
    """Sends words, of which a later one with the same first letter replaces the earlier one."""

    max_waiting = 5
    batch_size = 3
    first_pause = 0.01

    def __init__(self) -> None:
        super().__init__("Sending letters")
        self.sent: list[list[str]] = []
        self.attempts = 0
        self.failing = 0
        self.answers = Event()
        self.answers.set()
        self.looked_round = 0

    def key_of(self, item: str) -> str:
        return item[0].lower()

    def size_of(self, item: str) -> int:
        return 2 if item.isupper() else 1

    def send(self, batch: list[str]) -> None:
        self.attempts += 1
        assert self.answers.wait(PATIENCE)
        if self.failing:
            self.failing -= 1
            raise ValueError("it\nrains")
        self.sent.append(batch)

    def gives_up(self, item: str, _error: Exception) -> bool:
        return item.startswith("x")

    def seconds_until_due(self) -> float:
        return 0.01 if self.looked_round < 3 else 600.0

    def housekeeping(self) -> None:
        self.looked_round += 1


@pytest.fixture
def letters(caplog: pytest.LogCaptureFixture) -> Iterator[Letters]:
    caplog.set_level(logging.INFO)
    found = Letters()
    yield found
    found.answers.set()
    found.stop(PATIENCE)


def test_batches_hold_the_newest_items_in_order(letters: Letters) -> None:
    for word in ("a1", "b1", "c1", "a2", "d1"):
        assert letters.put(word)
    letters.start()
    assert wait_until(lambda: len(letters.sent) == 2)
    assert letters.sent == [["a2", "b1", "c1"], ["d1"]]


def test_a_full_queue_takes_only_what_replaces_an_item(letters: Letters) -> None:
    assert [letters.put(word) for word in ("AA", "BB", "c", "d", "b", "e", "f")] == [
        *[True] * 3,
        False,
        *[True] * 2,
        False,
    ]
    letters.remove(["b", "nothing"])
    assert letters.put("f")
    assert letters.next_batch() == ["AA", "c", "e"]


def test_what_is_replaced_while_it_is_sent_is_sent_again(letters: Letters) -> None:
    letters.answers.clear()
    letters.start()
    letters.put("a1")
    assert wait_until(lambda: letters.attempts == 1)
    letters.put("a2")
    letters.answers.set()
    assert wait_until(lambda: letters.sent == [["a1"], ["a2"]])


def test_a_failure_and_its_end_are_logged_once(
    letters: Letters, caplog: pytest.LogCaptureFixture
) -> None:
    letters.failing = 3
    letters.put("a")
    letters.put("x")
    letters.start()
    assert wait_until(lambda: len(caplog.messages) == 3)
    assert letters.sent == [["a"]]
    assert caplog.messages == [
        "Sending letters failed, trying again: it rains",
        "Sending letters drops items: they cannot be sent",
        "Sending letters recovered; 1 item was dropped",
    ]
    assert letters.dropped == 1


def test_a_batch_is_waited_for_but_not_for_long(letters: Letters) -> None:
    letters.collect_seconds = 600.0
    letters.start()
    for word in "abc":
        letters.put(word)
    assert wait_until(lambda: letters.sent == [["a", "b", "c"]])
    letters.put("d")
    assert letters.stop(PATIENCE)
    assert letters.sent[1:] == [["d"]]


def test_housekeeping_is_done_without_items_and_does_not_spin(letters: Letters) -> None:
    letters.failing = 1
    letters.put("x")
    letters.start()
    assert wait_until(lambda: letters.looked_round == 3)
    # The item was given up: there is nothing to try until the next one.
    assert letters.attempts == 1
    assert letters.stop(PATIENCE)
    assert letters.looked_round <= 4


def test_a_stop_ends_at_the_first_failure_and_says_what_is_left(
    letters: Letters, caplog: pytest.LogCaptureFixture
) -> None:
    letters.first_pause = letters.longest_pause = 600.0
    letters.failing = 2
    letters.put("a")
    letters.start()
    assert wait_until(lambda: letters.attempts == 1)
    began = time.monotonic()
    assert letters.stop(PATIENCE)
    assert time.monotonic() - began < PATIENCE / 2
    assert letters.attempts == 2
    assert caplog.messages[-1] == "Sending letters stopped with 1 item not sent"


def test_a_stop_does_not_wait_longer_than_its_timeout(letters: Letters) -> None:
    letters.answers.clear()
    letters.put("a")
    letters.start()
    assert not letters.stop(0.05)
