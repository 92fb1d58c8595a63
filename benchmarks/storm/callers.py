# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Hundreds of callers in one thread, who repeat what is not answered and write everything down.

oslo.messaging's own client costs as much as a scheduler does; on one machine with all of them it
would measure the callers. What is sent is the same, and so is what is done about silence.
"""

import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from typing import Any, Self, TextIO

from benchmarks.history import PLACED, UNAVAILABLE
from benchmarks.storm.wire import Wire
from benchmarks.storm.wishes import Wish
from scheduler.objects.selection import Selection
from scheduler.wire.context import RequestContext
from scheduler.wire.replies import decode_destinations

# Is told of a wish what it has got in the end, nothing if it was refused, in how many attempts.
Ended = Callable[[Wish, Sequence[str], int], None]
# Seconds; from one to the next it is twice as long.
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 2.0


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds for which a caller waits for one attempt, and until it gives up altogether."""

    attempt: float = 30.0
    deadline: float = 120.0


@dataclass(slots=True)
class Asking:
    """A caller at work on a wish; waiting for the answer to its last attempt."""

    wish: Wish
    build: int = 1
    attempt: int = 0
    began: float = 0.0
    tried: list[tuple[str, str]] = field(default_factory=list)
    call: dict[str, Any] = field(default_factory=dict)
    waiting: bool = False


class Callers:
    """Ask for wishes, so many at a time, and write the log that benchmarks.history describes."""

    def __init__(
        self,
        transport_url: str,
        log: Path,
        patience: Patience | None = None,
        seed: int = 0,
        ended: Ended = lambda *_: None,
    ) -> None:
        self._path, self._patience, self._ended = log, patience or Patience(), ended
        self._chance = random.Random(seed)
        self._wire = Wire(transport_url, self._take)
        self._log: TextIO
        # By the ids of calls: whose build and attempt each was. They stay: answers may come late.
        self._sent: dict[str, tuple[Asking, int, int]] = {}
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._busy = 0

    def __enter__(self) -> Self:
        self._log = self._path.open("w")
        self._wire.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self._log.close()
        self._wire.close()

    def run(
        self, wishes: Iterator[Wish], callers: int, stop: Callable[[], bool] = lambda: False
    ) -> None:
        """Ask for wishes until there are no more, or stop() says so, and all are answered."""
        more = True
        while more or self._busy:
            while more and self._busy < callers:
                wish = None if stop() else next(wishes, None)
                more = wish is not None
                if wish is not None:
                    self._busy += 1
                    self._begin(Asking(wish))
            self._wire.listen(self._until_next())

    def collect(self) -> None:
        """Write down the answers that still wait in the queue."""
        while self._wire.listen(0.2):
            pass
        self._log.flush()

    def note_left(self, wish: Wish, uuid: str) -> None:
        """Write down that an instance, which was placed by this wish, ends."""
        self._note("left", (Asking(wish), 1, 1), instances=[uuid])

    def _begin(self, asking: Asking) -> None:
        """Ask for the first time for a build."""
        asking.attempt, asking.began = 0, time.monotonic()
        context = RequestContext(request_id=asking.wish.request_id, project_id="storm")
        asking.call = {
            "method": "select_destinations",
            "args": asking.wish.arguments(asking.tried),
            "version": "4.5",
            **{f"_context_{name}": value for name, value in context.to_dict().items()},
        }
        self._send(asking)

    def _send(self, asking: Asking) -> None:
        """Ask, in the same words each time."""
        asking.attempt += 1
        asking.waiting = True
        wish, build, attempt = asking.wish, asking.build, asking.attempt
        self._note(
            "asked",
            (asking, build, attempt),
            instances=wish.instances,
            size=asdict(wish.size),
            group=asdict(wish.group) if wish.group else None,
            zone=wish.zone,
            protected=wish.mode is not None,
            promised=wish.promised,
        )
        message_id = self._wire.send(asking.call, self._patience.attempt)
        self._sent[message_id] = asking, build, attempt
        self._later(self._patience.attempt, lambda: self._give_up(asking, build, attempt))

    def _give_up(self, asking: Asking, build: int, attempt: int) -> None:
        """Wait no longer for an attempt, unless it was answered."""
        if asking.waiting and (asking.build, asking.attempt) == (build, attempt):
            self._note("unanswered", (asking, build, attempt))
            self._again(asking, 0)

    def _again(self, asking: Asking, pause: float) -> None:
        """Ask once more in the same words, unless it has taken too long."""
        asking.waiting = False
        if time.monotonic() + pause - asking.began > self._patience.deadline:
            self._end(asking)
        else:
            self._later(pause, lambda: self._send(asking))

    def _end(self, asking: Asking, hosts: Sequence[str] = ()) -> None:
        asking.waiting = False
        self._busy -= 1
        self._ended(asking.wish, hosts, asking.attempt)

    def _take(self, reply: dict[str, Any]) -> None:
        """Take an answer, and write it down whether or not somebody still waits for it."""
        if reply["_msg_id"] not in self._sent or not reply["ending"]:
            return
        whose = asking, build, attempt = self._sent[reply["_msg_id"]]
        failure = json.loads(reply["failure"]) if reply["failure"] else None
        outcome = failure["class"] if failure else PLACED
        chosen = [] if failure else [each[0] for each in decode_destinations(reply["result"])]
        self._note(
            "answered",
            whose,
            outcome=outcome,
            reason=failure["message"] if failure else "",
            places=list(map(_place, chosen)),
        )
        if asking.waiting and (asking.build, asking.attempt) == (build, attempt):
            self._heed(asking, outcome, [(each.service_host, each.nodename) for each in chosen])

    def _heed(self, asking: Asking, outcome: str, chosen: Sequence[tuple[str, str]]) -> None:
        """Do what callers do about an answer: be content, ask again, or build in vain."""
        if outcome == UNAVAILABLE:
            pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (asking.attempt - 1))
            self._again(asking, pause * self._chance.uniform(0.5, 1))
        elif outcome == PLACED and asking.build <= asking.wish.failing:
            asking.build += 1
            asking.tried += chosen
            self._begin(asking)
        else:
            self._end(asking, [host for host, _ in chosen])

    def _note(self, event: str, whose: tuple[Asking, int, int], **more: Any) -> None:
        asking, build, attempt = whose
        line = {"event": event, "at": time.time(), "request": asking.wish.request_id}
        self._log.write(json.dumps({**line, "build": build, "attempt": attempt, **more}) + "\n")

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        heappush(self._timers, (time.monotonic() + seconds, next(self._numbers), action))

    def _until_next(self) -> float:
        """Do what is due; return the seconds until something else is."""
        while self._timers and self._timers[0][0] <= time.monotonic():
            heappop(self._timers)[2]()
        if not self._timers:
            return 0.05
        return min(0.5, max(0.001, self._timers[0][0] - time.monotonic()))


def _place(chosen: Selection) -> dict[str, Any]:
    names = ("vcpu", "memory_mb", "disk_gb")
    limits = {name: getattr(chosen.limits, name) for name in names} if chosen.limits else {}
    return {"host": chosen.service_host, "node": chosen.nodename, "limits": limits}
