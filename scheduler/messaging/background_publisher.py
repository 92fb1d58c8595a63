# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Sending from a thread of its own, so that no request and no audit waits for it."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from itertools import islice
from threading import Condition, Thread
from typing import Generic, TypeVar

from oslo_log import log

from conf.daemon.state_logger import StateLogger, one_line
from inventory.errors import counted

LOG = log.getLogger(__name__)

Item = TypeVar("Item")


class BackgroundPublisher(ABC, Generic[Item]):
    """Sends queued items from one thread, in batches, and retries with growing pauses.

    An item stays in the queue until it is sent or given up; a later one replaces the one of the
    same key. Log lines begin with activity, such as "Sending notifications", and come when sending
    begins to fail and when it has recovered.
    """

    # The queue is full with items of this size in all.
    max_waiting = 1_000
    batch_size = 1
    # Seconds to wait until a batch is full.
    collect_seconds = 0.0
    # Seconds after a failure, doubled each time; and of a stop that waits for the thread.
    first_pause = 1.0
    longest_pause = 30.0
    stop_timeout = 5.0
    # How many failures in a row are not worth a warning.
    tolerated_failures = 0
    # Of the warning, if it is not "... failed, trying again: %s".
    failure_text = ""

    def __init__(self, activity: str) -> None:
        self._activity = activity
        self._waiting: dict[Hashable, Item] = {}
        self._size = 0
        self._condition = Condition()
        self._stopping = False
        # In a row, and whether the last attempt is one of them.
        self._failures = 0
        self._failing = False
        self._pause = 0.0
        # Since the last recovery, and in all.
        self._dropped = 0
        self.dropped = 0
        self._state = StateLogger(LOG, activity)
        self._thread = Thread(target=self._run, name=activity, daemon=True)

    @abstractmethod
    def send(self, batch: list[Item]) -> None:
        """Send a batch; any error counts as a failure."""

    def gives_up(self, _item: Item, _error: Exception) -> bool:
        """Return whether an item is dropped after a failure; by default it is tried again."""
        return False

    def key_of(self, item: Item) -> Hashable:
        """Return the key by which an item replaces an older one."""
        return id(item)

    def size_of(self, _item: Item) -> int:
        """Return how much of max_waiting an item takes."""
        return 1

    def has_work(self) -> bool:
        """Return whether there is something to send."""
        return bool(self._waiting)

    def next_batch(self) -> list[Item]:
        """Return the items to send next; called with the lock held."""
        return [*islice(self._waiting.values(), self.batch_size)]

    def seconds_until_due(self) -> float | None:
        """Return after how many seconds housekeeping() is due, None for never."""
        return None

    def housekeeping(self) -> None:
        """Do other work of the thread; called after each attempt and when it is due."""
        return

    def start(self) -> None:
        """Start the thread; items that were queued before are sent then."""
        self._thread.start()

    def begin_stop(self) -> None:
        """Have the thread send what waits, and end at the first failure; returns at once."""
        with self._condition:
            self._stopping, self._failing = True, False
            self._condition.notify_all()

    def stop(self, timeout: float | None = None) -> bool:
        """Send what waits and end the thread, within a timeout; return whether it has ended."""
        self.begin_stop()
        if self._thread.ident:
            self._thread.join(self.stop_timeout if timeout is None else timeout)
        if self._waiting:
            left = counted(len(self._waiting), "item")
            LOG.warning("%s stopped with %s not sent", self._activity, left)
        return not self._thread.is_alive()

    def put(self, item: Item) -> bool:
        """Queue an item, without waiting; return False if the queue is full."""
        key = self.key_of(item)
        with self._condition:
            older = self._waiting.get(key)
            if older is None and self._size >= self.max_waiting:
                return False
            self._size += self.size_of(item) - (0 if older is None else self.size_of(older))
            self._waiting[key] = item
            if len(self._waiting) in (1, self.batch_size):
                self._condition.notify_all()
        return True

    def remove(self, items: Iterable[Item]) -> None:
        """Remove items from the queue, unless newer ones have replaced them."""
        with self._condition:
            for item in items:
                key = self.key_of(item)
                if self._waiting.get(key) is item:
                    del self._waiting[key]
                    self._size -= self.size_of(item)

    def drop(self, number: int, reason: str) -> None:
        """Count items that are lost, and warn of the reason."""
        with self._condition:
            self._dropped += number
            self.dropped += number
            self._state.failed(reason, "%s drops items: %s", self._activity, reason)

    def _run(self) -> None:
        while self._wait():
            if self.has_work():
                self._attempt()
            self.housekeeping()

    def _attempt(self) -> None:
        with self._condition:
            batch = self.next_batch()
        failure = None
        try:
            self.send(batch)
        # Of any library below: a thread that ends would send nothing any more.
        except Exception as error:
            failure = error
        if failure is None:
            self._note_success(batch)
        else:
            self._note_failure(batch, failure)

    def _wait(self) -> bool:
        """Wait until there is something to do; return False at the end of the thread."""
        with self._condition:
            self._condition.wait_for(
                lambda: self.has_work() or self._stopping, self.seconds_until_due()
            )
            if self.has_work() and self.collect_seconds and not self._failing:
                self._condition.wait_for(
                    lambda: len(self._waiting) >= self.batch_size or self._stopping,
                    self.collect_seconds,
                )
            return not self._stopping or (self.has_work() and not self._failing)

    def _note_success(self, batch: list[Item]) -> None:
        with self._condition:
            self.remove(batch)
            self._failing, self._pause = False, 0.0
            if batch:
                self._failures = 0
            # As long as others wait, more may be dropped at any time.
            if batch and not self._waiting:
                lost, self._dropped = self._dropped, 0
                dropped = counted(lost, "item was dropped", "items were dropped")
                self._state.recovered(f"; {dropped}" if lost else "")

    def _note_failure(self, batch: list[Item], error: Exception) -> None:
        with self._condition:
            self._failures += 1
            if self._failures > self.tolerated_failures:
                text = self.failure_text or f"{self._activity} failed, trying again: %s"
                self._state.failed(text, text, one_line(error))
            given_up = [item for item in batch if self.gives_up(item, error)]
            if given_up:
                self.remove(given_up)
                self.drop(len(given_up), "they cannot be sent")
            self._failing = self.has_work()
            self._pause = min(self._pause * 2 or self.first_pause, self.longest_pause)
            self._condition.wait_for(lambda: self._stopping, self._pause)
