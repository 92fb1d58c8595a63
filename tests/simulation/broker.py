# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The broker of a simulated cloud: messages are JSON, late, in another order, lost or there twice.

Delivery is at most once, as from oslo.messaging: a server that ends loses what it has begun. What
is pushed comes to each scheduler in its order.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import eventlet
import oslo_messaging
from eventlet.queue import Queue

from scheduler.messaging.change_publisher import ChangePublisher
from scheduler.wire.context import Deadline
from scheduler.wire.errors import SchedulerFailure
from tests.simulation.kernel import Actor, Simulator

# Faults that a message may meet, each once.
NO_CALL, NO_REPLY, TWICE, NO_PUSH, PUSHED_TWICE = FAULTS = (
    *("call lost", "reply lost", "call twice", "push lost", "push twice"),
)
# Seconds for which a caller waits, and the longest delay of one message in twenty.
TIMEOUT, LONG_DELAY = 5.0, 3.0


class NoAnswer(Exception):
    """The caller has given up."""


class Broker:
    """Calls go to one scheduler, casts and pushes to all; heard is given each answer."""

    def __init__(
        self, simulator: Simulator, heard: Callable[[Mapping[str, Any], Any], None]
    ) -> None:
        self._simulator, self._heard = simulator, heard
        # The endpoints of each scheduler that serves, and the queue of its pushes.
        self._serving: dict[str, tuple[Actor, Any, Any, Queue]] = {}
        # How many requests each scheduler is answering.
        self._in_flight: Counter[Actor] = Counter()
        self.armed: list[str] = []
        self.stopped_until = 0.0

    def serve(self, actor: Actor, requests: Any, tracking: Any, pushes: Any) -> None:
        """Let a scheduler have messages from now on; it is the running actor."""
        queue = Queue()
        self._serving[actor.name] = actor, requests, tracking, queue
        eventlet.spawn_n(self._work, queue, pushes)

    def drain(self, actor: Actor) -> None:
        """Let a scheduler have no more messages, and wait until it has answered."""
        self._serving.pop(actor.name, None)
        while self._in_flight[actor]:
            time.sleep(0.1)

    def call(self, context: Mapping[str, Any], arguments: Any) -> Any:
        """Return the answer of some scheduler; raises NoAnswer and SchedulerFailure."""
        simulator, caller = self._simulator, self._simulator.actor
        answer: Queue = Queue()
        message = json.dumps([context, arguments])
        if self._lost(NO_CALL):
            message = ""
        for _ in range(2 if self._take(TWICE) else 1):
            living = sorted(name for name, each in self._serving.items() if not each[0].is_dead)
            if message and living:
                actor, endpoint, _, _ = self._serving[simulator.order.choice(living)]
                work = self._answer, endpoint, message, caller, answer
                simulator.call_as(actor, self._delay(), eventlet.spawn_n, *work)
        try:
            found = answer.get(timeout=TIMEOUT)
        except eventlet.queue.Empty:
            raise NoAnswer() from None
        if isinstance(found, SchedulerFailure):
            raise found
        return found

    def cast(self, method: str, arguments: Mapping[str, Any]) -> None:
        """Have all schedulers told something, in any order."""
        for actor, _, endpoint, _ in [*self._serving.values()]:
            if not self._lost(NO_PUSH):
                work = partial(getattr(endpoint, method), {}, **arguments)
                self._simulator.call_as(actor, self._delay(), eventlet.spawn_n, work)

    def push(self, arguments: Mapping[str, Any]) -> None:
        """Push what has changed to all schedulers."""
        message = json.dumps(arguments)
        for actor, _, _, queue in [*self._serving.values()]:
            number = 0 if self._lost(NO_PUSH) else 2 if self._take(PUSHED_TWICE) else 1
            for _ in range(number):
                self._simulator.call_as(actor, 0.0, queue.put, message)

    def _work(self, queue: Queue, endpoint: Any) -> None:
        while True:
            message = queue.get()
            time.sleep(self._delay())
            endpoint.nodes_changed({}, **json.loads(message))

    def _answer(self, endpoint: Any, message: str, caller: Actor, answer: Queue) -> None:
        simulator = self._simulator
        context, arguments = json.loads(message)
        Deadline.stamp(context, TIMEOUT)
        simulator.log(f"receives {context['request_id']}")
        actor = simulator.actor
        self._in_flight[actor] += 1
        try:
            found = json.loads(json.dumps(endpoint.select_destinations(context, **arguments)))
        except oslo_messaging.ExpectedException as error:
            found = error.exc_info[1]
        finally:
            self._in_flight[actor] -= 1
        self._heard(context, found)
        if not self._lost(NO_REPLY):
            simulator.call_as(caller, self._delay(), answer.put, found)

    def _delay(self) -> float:
        order, latency = self._simulator.order, self._simulator.latency
        return order.random() ** 2 * (LONG_DELAY if order.random() < 0.05 else latency)

    def _lost(self, fault: str) -> bool:
        return self.stopped_until > self._simulator.now or self._take(fault)

    def _take(self, fault: str) -> bool:
        if fault not in self.armed:
            return False
        self.armed.remove(fault)
        self._simulator.log(f"! {fault}")
        return True


class SimulatedPublisher(ChangePublisher):
    """Pushes by the simulated broker."""

    def __init__(self, broker: Broker, sender: str, collecting: float = 0.0) -> None:
        super().__init__(lambda: None, sender, collecting)
        self._broker = broker

    def send(self, batch: list[Any]) -> None:
        """Push changes of one kind."""
        self._broker.push({"agent": self._sender, **batch[0].encode(batch)})
