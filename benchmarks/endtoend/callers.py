# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Callers: one at a time as conductors call, and many at once whose own cost is small."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import oslo_messaging
from oslo_config import cfg

from benchmarks.endtoend.calls import Call, context_of
from benchmarks.storm.wire import Wire

# Seconds that Nova's conductors wait for a sign of life, and for the answer.
SILENCE, PATIENCE = 60, 1800
# A call that is not answered by then ends the measurement.
LOST = 30.0
# A topic without a server.
NOBODY = "nobody"


@dataclass(slots=True)
class Load:
    """What came of many callers: seconds each call took, how many were answered in each slice."""

    slice_seconds: float
    times: list[float] = field(default_factory=list)
    answered: list[int] = field(default_factory=list)
    placed: list[int] = field(default_factory=list)
    refused: int = 0
    # All of them, those before and after the slices too.
    calls: int = 0

    @property
    def rates(self) -> list[float]:
        """Answers per second, slice by slice."""
        return [each / self.slice_seconds for each in self.answered]

    @property
    def placements(self) -> list[float]:
        """Instances that got a host, per second, slice by slice."""
        return [each / self.slice_seconds for each in self.placed]


class OneCaller:
    """Calls through oslo.messaging, as conductors do, and waits for each answer."""

    def __init__(self, transport_url: str) -> None:
        oslo_messaging.set_transport_defaults("nova")
        cfg.CONF([], project="berthmaster")
        self._transport = oslo_messaging.get_rpc_transport(cfg.CONF, url=transport_url)

    def connect(self) -> None:
        """Make the connections, so that the first call takes no longer than others."""
        client = oslo_messaging.get_rpc_client(self._transport, oslo_messaging.Target(topic=NOBODY))
        with suppress(oslo_messaging.MessagingTimeout):
            client.prepare(timeout=0.1).call({}, "connect")

    def ask(self, topic: str, call: Call) -> Any:
        """Return the answer to a call."""
        return self.asker(topic)(call)

    def asker(self, topic: str) -> Callable[[Call], Any]:
        """Return what calls the servers of a topic."""
        target = oslo_messaging.Target(topic=topic, version="4.5")
        client = oslo_messaging.get_rpc_client(self._transport, target).prepare(
            timeout=PATIENCE, call_monitor_timeout=SILENCE
        )
        return lambda call: client.call(context_of(call), call["method"], **call["args"])

    def by_turns(
        self, topics: Sequence[str], calls: Iterator[Call], number: int, warm_up: int
    ) -> dict[str, list[float]]:
        """Return the seconds that calls took, the servers of all topics being called by turns."""
        askers = {topic: self.asker(topic) for topic in topics}
        times: dict[str, list[float]] = {topic: [] for topic in topics}
        for turn in range(warm_up + number):
            for topic, ask in askers.items():
                call = next(calls)
                began = time.perf_counter()
                ask(call)
                if turn >= warm_up:
                    times[topic].append(time.perf_counter() - began)
        return times

    def close(self) -> None:
        """Give the connections back."""
        self._transport.cleanup()


class Crowd:
    """So many callers, each of whom calls again as soon as it is answered."""

    def __init__(self, transport_url: str, topic: str, calls: Iterator[Call]) -> None:
        self._wire = Wire(transport_url, self._take, topic)
        self._calls = calls
        self._sent: dict[str, float] = {}
        self._load = Load(1.0)
        self._callers, self._warm_up = 0, 0.0
        self._began = self._ends = math.inf

    def run(self, callers: int, warm_up: float, slices: int, slice_seconds: float) -> Load:
        """Return what came of the callers in so many slices of time after a warm-up.

        Where the machine is slow the warm-up lasts until there are as many answers as callers.
        """
        self._load = Load(slice_seconds, answered=[0] * slices, placed=[0] * slices)
        self._callers, self._warm_up = callers, time.perf_counter() + warm_up
        self._began = self._ends = math.inf
        self._wire.connect()
        try:
            for _ in range(callers):
                self._send()
            while self._sent:
                if not self._wire.listen(LOST):
                    raise TimeoutError(f"{len(self._sent)} calls got no answer in {LOST:g} s")
        finally:
            self._wire.close()
        return self._load

    def _send(self) -> None:
        call = next(self._calls)
        began = time.perf_counter()
        self._sent[self._wire.send(call, PATIENCE)] = began

    def _take(self, reply: dict[str, Any]) -> None:
        if not reply["ending"]:
            return
        now = time.perf_counter()
        began = self._sent.pop(reply["_msg_id"])
        self._load.calls += 1
        if self._began == math.inf and now >= self._warm_up and self._load.calls >= self._callers:
            self._began = now
            self._ends = now + len(self._load.answered) * self._load.slice_seconds
        if now < self._ends:
            self._send()
            if now >= self._began:
                self._count(now, now - began, reply)

    def _count(self, now: float, took: float, reply: dict[str, Any]) -> None:
        load = self._load
        number = int((now - self._began) / load.slice_seconds)
        load.times.append(took)
        load.answered[number] += 1
        if reply["failure"]:
            load.refused += 1
        else:
            load.placed[number] += len(reply["result"])
