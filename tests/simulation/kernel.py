# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The simulator: a hub of eventlet whose clock and whose order are drawn from a seed.

The product runs on eventlet as in production: each of its threads is a greenlet, and each wait for
a lock, a future or a timer goes to the hub. This hub never waits: it goes on with any greenlet that
is due, or sets the clock to the time of the next one.
"""

import heapq
import os
import queue
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import eventlet
from eventlet import hubs
from eventlet.hubs.hub import BaseHub

# Seconds since 1970 at which each history begins.
EPOCH = 1_800_000_000.0
# What one step takes, in seconds: no two things happen at the same time.
STEP = 1e-5


@dataclass(slots=True, eq=False)
class Actor:
    """A process of the cloud: what it starts belongs to it, and ends with it.

    boot is its monotonic clock at the beginning of the history, skew is how far its wall clock is
    ahead, both in seconds. Until resumes it stands still, as a virtual machine that is not run.
    """

    name: str
    boot: float = 0.0
    skew: float = 0.0
    resumes: float = 0.0
    is_dead: bool = False
    # They are not collected before the end: that would run the rest of their code.
    greenlets: set[Any] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class _Wakes:
    """A timer of eventlet's kind, whose greenlet goes on."""

    greenlet: Any
    called: bool = False

    def __call__(self) -> None:
        self.called = True
        self.greenlet.switch()


class Simulator(BaseHub):
    """Runs what is due in an order drawn from the seed."""

    def __init__(self, _clock: Any = None) -> None:
        super().__init__(lambda: self.now)
        self.begin(0)

    def begin(self, seed: int, recording: bool = False) -> None:
        """Begin a history; with recording, log() keeps what happens."""
        self.now, self.steps = 0.0, 0
        self.order, self.bytes = random.Random(f"order {seed}"), random.Random(f"bytes {seed}")
        random.seed(f"chance {seed}")
        # The longest that an answer of the database or a message is late, but for faults.
        self.latency = self.order.choice((0.01, 0.05, 0.3))
        self.world = self.actor = Actor("world")
        self.lines: list[str] = []
        self.recording = recording
        self._numbers = count()
        self._waiting: list[tuple[float, int, Actor, Any]] = []
        self._due: list[tuple[Actor, Any]] = []

    def log(self, text: str) -> None:
        """Note what the running actor does."""
        if self.recording:
            self.lines.append(f"{self.now:11.5f} {self.steps:7d} {self.actor.name:<13} {text}")

    def run_as(self, actor: Actor, work: Callable[..., object], *args: Any) -> None:
        """Run work in a greenlet of an actor, soon."""
        self.call_as(actor, 0.0, eventlet.spawn_n, work, *args)

    def call_as(self, actor: Actor, seconds: float, call: Callable[..., Any], *args: Any) -> None:
        """Call what does not wait, as an actor, after some seconds."""
        before, self.actor = self.actor, actor
        self.schedule_call_global(seconds, call, *args)
        self.actor = before

    def pause(self) -> None:
        """Let others go on, mostly at once and sometimes after a while."""
        is_quick = self.order.random() < 0.7
        self.sleep(0.0 if is_quick else self.latency * self.order.random() ** 2)

    def sleep(self, seconds: float) -> None:
        """Let others go on for some seconds; with less around it than time.sleep()."""
        wakes = _Wakes(eventlet.getcurrent())
        self.actor.greenlets.add(wakes.greenlet)
        heapq.heappush(self._waiting, (self.now + seconds, next(self._numbers), self.actor, wakes))
        try:
            self.greenlet.switch()
        finally:
            wakes.called = True

    def kill(self, actor: Actor) -> None:
        """End a process at what it waits for: it does nothing more, not even clean up."""
        actor.is_dead = True
        self.log(f"kills {actor.name}")

    def add_timer(self, timer: Any) -> float:
        at: float = self.now + max(0.0, timer.seconds)
        owner = getattr(timer.tpl[0], "__self__", None)
        if isinstance(owner, eventlet.greenlet.greenlet):
            self.actor.greenlets.add(owner)
        heapq.heappush(self._waiting, (at, next(self._numbers), self.actor, timer))
        return at

    def timer_canceled(self, timer: Any) -> None:
        """Nothing to do: it is dropped when it is due."""

    def run(self, *_args: Any, **_kwargs: Any) -> None:
        self.running = True
        while True:
            self._step()

    def _step(self) -> None:
        self.steps += 1
        self.now += STEP
        due, waiting = self._due, self._waiting
        if not due and waiting:
            self.now = max(self.now, waiting[0][0])
        while waiting and waiting[0][0] <= self.now:
            _, _, actor, timer = heapq.heappop(waiting)
            if timer.called or actor.is_dead:
                continue
            if actor.resumes > self.now:
                heapq.heappush(waiting, (actor.resumes, next(self._numbers), actor, timer))
                continue
            due.append((actor, timer))
        if not due:
            return
        chosen = self.order.randrange(len(due))
        due[chosen], due[-1] = due[-1], due[chosen]
        self.actor, timer = due.pop()
        if not timer.called and not self.actor.is_dead:
            timer()


def install() -> Simulator:
    """Put the simulator below everything that is imported from now on, and return it."""
    hubs.use_hub(Simulator)
    eventlet.monkey_patch(os=False, select=False, socket=False, thread=True, time=True)
    simulator: Simulator = hubs.get_hub()

    def monotonic() -> float:
        return simulator.now + simulator.actor.boot

    def wall() -> float:
        return EPOCH + simulator.now + simulator.actor.skew

    def urandom(number: int) -> bytes:
        return simulator.bytes.randbytes(number)

    time.monotonic, time.time, os.urandom = monotonic, wall, urandom
    # Names of their own for the clock.
    threading._time = queue.time = monotonic
    return simulator
