# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""One history: a plan played on a simulated cloud, and what it came to."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eventlet.event import Event as Flag
from eventlet.timeout import Timeout

from tests.simulation import broker as messages
from tests.simulation import database as transactions
from tests.simulation.actors import AUDITS, KEEPER, LEASE, Agent, Process, Scheduler
from tests.simulation.broker import Broker
from tests.simulation.callers import THREADS, Conductor, Host
from tests.simulation.database import SimulatedDatabase
from tests.simulation.kernel import Actor, Simulator
from tests.simulation.model import Model, Violation
from tests.simulation.nova_cloud import NovaCloud
from tests.simulation.nova_operators import NovaOperator
from tests.simulation.operators import Operator
from tests.simulation.plan import (
    FAULT,
    KILL,
    LOSS,
    MIRRORS,
    MOVE,
    NO_BROKER,
    NOVA,
    NOVA_LOST,
    NOVA_SILENCE,
    OPERATOR,
    REQUEST,
    SILENCE,
    SKEW,
    STALL,
    STOP,
    Event,
    Plan,
)
from tests.simulation.rows import Rows

# How many seconds may pass after the last fault without an answer, and until all is given back.
ANSWERED, SETTLED = 90, LEASE + 2 * AUDITS + 2 * KEEPER
# How long it goes on after the last build or deletion: each agent audits, and the keeper looks.
CALM = AUDITS + KEEPER
# How long a process is away that its own commit has killed.
AWAY = 3.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a history came to; rule is "" without a violation."""

    seed: int
    rule: str
    text: str
    steps: int
    lines: tuple[str, ...] = ()


class History:
    """A cloud and what happens to it."""

    def __init__(self, plan: Plan, simulator: Simulator, database: SimulatedDatabase) -> None:
        self._plan, self._simulator, self._database = plan, simulator, database
        self._violation: Violation | None = None
        self._over = Flag()
        database.committed, database.kill = self._committed, self._kill_shortly
        database.keeps_past = any(
            each.how.get("breaks") == transactions.LATE for each in plan.events
        )
        cells = 0 if plan.is_nova else plan.cells
        self._model = Model(
            plan.vcpus, cells, lambda: simulator.now, lambda host: self._agents[host].guests
        )
        self._broker = Broker(simulator, self._heard)
        hosts = [f"host-{each}" for each in range(plan.hosts)]
        self._nova: NovaCloud | None = None
        self._agents: Mapping[str, Host]
        if plan.is_nova:
            of_cloud = self._broker, hosts, plan.vcpus, database.open
            self._nova = NovaCloud(simulator, *of_cloud)
            self._agents = self._nova.computes
        else:
            self._agents = {
                name: Agent(self._broker, plan.vcpus, cells, simulator, name, database.open)
                for name in hosts
            }
        schedulers = [
            Scheduler(self._broker, simulator, f"scheduler-{each}", database.open)
            for each in range(plan.schedulers)
        ]
        self._processes: dict[str, Process] = {each.name: each for each in schedulers}
        self._processes |= self._agents
        self._processes |= self._nova.mirrors if self._nova else {}
        self._conductor = Conductor(simulator, self._broker, self._model, self._agents)
        self._conductor.fail = self._fail
        of_operator = simulator, self._model, self._conductor.orders, database
        if self._nova:
            is_calm = not any(
                each.how["breaks"] in (SILENCE, NOVA_SILENCE) or each.how.get("of") in MIRRORS
                for each in plan.events
                if each.kind == FAULT
            )
            self._operator: Operator = NovaOperator(self._nova, is_calm, *of_operator)
        else:
            self._operator = Operator(*of_operator)
        self._operator.fail, self._operator.ask_again = self._fail, self._conductor.ask_again
        threading.excepthook = self._died

    def play(self) -> Outcome:
        """Play all events, then let it settle, and check."""
        simulator = self._simulator
        for each in self._processes.values():
            each.start()
        for event in self._plan.events:
            simulator.call_as(simulator.world, event.at, self._begin, event)
        self._sleep(self._plan.ends + 1)
        self._database.armed.clear()
        self._broker.armed.clear()
        if self._nova:
            self._nova.heal()
        for process in self._processes.values():
            process.start()
        self._wait_for_answers()
        # Operators of Nova wait for a mirror.
        while self._nova and self._is_fine and self._operator.under_way:
            self._sleep(1.0)
        self._settle()
        found, lines = self._violation, tuple(simulator.lines)
        rule, text = (found.rule, str(found)) if found else ("", "")
        return Outcome(self._plan.seed, rule, text, simulator.steps, lines)

    def _wait_for_answers(self) -> None:
        waiting, since = self._conductor.waiting, self._simulator.now
        while waiting and self._is_fine:
            before = {*waiting}
            self._sleep(1.0)
            # Of more requests than are asked for at a time, some wait for others.
            if before - waiting and len(self._conductor.orders) > THREADS:
                since = self._simulator.now
            elif self._simulator.now > since + ANSWERED:
                self._fail(Violation("an answer for who asks", f"none for {sorted(waiting)}"))

    def _settle(self) -> None:
        """Go on until nothing is counted that nobody holds, which has to come in time."""
        simulator = self._simulator
        until = simulator.now + SETTLED
        while self._is_fine and self._conductor.under_way and simulator.now < until - CALM:
            self._sleep(1.0)
        self._sleep(CALM)
        while self._is_fine:
            guests = {name: each.guests for name, each in self._agents.items()}
            try:
                self._model.settled(guests, self._conductor.protected)
                if self._nova and (text := self._nova.differs(self._database.rows)):
                    raise Violation("as Nova has it", text)
                return
            except Violation as violation:
                if simulator.now > until:
                    self._fail(violation)
            self._sleep(5.0)

    @property
    def _is_fine(self) -> bool:
        # Once it is not, nobody sleeps any more.
        return self._violation is None

    def _sleep(self, seconds: float) -> None:
        """Let the cloud go on, until something is not true."""
        with Timeout(seconds, False):
            self._over.wait()

    def _begin(self, event: Event) -> None:
        self._simulator.log(f"event {event.number}: {event}")
        begin = {
            REQUEST: self._conductor.request,
            MOVE: self._conductor.move,
            OPERATOR: self._operator.begin,
            FAULT: self._break,
            LOSS: self._lose,
            NOVA: lambda _event: None,
        }
        begin[event.kind](event)

    def _break(self, event: Event) -> None:
        simulator, breaks = self._simulator, event.how["breaks"]
        until = simulator.now + event.how.get("seconds", 0.0)
        if breaks in messages.FAULTS:
            self._broker.armed.append(breaks)
        elif breaks == NO_BROKER:
            self._broker.stopped_until = until
        elif breaks == SILENCE:
            self._database.silent_until = until
        elif breaks in (NOVA_SILENCE, NOVA_LOST):
            if self._nova:
                self._nova.break_databases(event, until)
        elif breaks in transactions.FAULTS:
            self._database.armed.setdefault(event.how["of"], []).append(breaks)
        elif event.how["of"] in self._processes:
            self._break_process(self._processes[event.how["of"]], breaks, event.how["seconds"])

    def _break_process(self, process: Process, breaks: str, seconds: float) -> None:
        if breaks == KILL:
            self._kill(process, seconds)
        elif breaks == STOP:
            process.stop(seconds)
        elif breaks == STALL:
            process.actor.resumes = self._simulator.now + seconds
        elif breaks == SKEW:
            process.actor.skew += 100 * seconds - 300

    def _lose(self, event: Event) -> None:
        """Let a host die, and come back; the operator says so in time."""
        if self._nova:
            return
        world, host, seconds = self._simulator.world, event.how["of"], event.how["seconds"]
        self._kill(self._processes[host], seconds)
        self._conductor.lose(event)
        for does, after in (("fence", 0.0), ("unfence", seconds)):
            said = Event(event.number, after, OPERATOR, {"does": does, "host": host})
            self._simulator.call_as(world, after, self._operator.begin, said)

    def _kill(self, process: Process, seconds: float) -> None:
        if not process.actor.is_dead:
            self._simulator.kill(process.actor)
        self._simulator.call_as(self._simulator.world, seconds, process.start)

    def _kill_shortly(self, actor: Actor) -> None:
        self._kill(self._processes[actor.name], AWAY)

    def _committed(self) -> None:
        try:
            self._model.committed(Rows.read(self._database.rows))
        except Violation as violation:
            self._fail(violation)

    def _heard(self, context: Any, answer: Any) -> None:
        try:
            self._model.heard(context["key"], answer)
        except Violation as violation:
            self._fail(violation)

    def _died(self, arguments: Any) -> None:
        text = f"{arguments.exc_type.__name__}: {arguments.exc_value}"
        self._fail(Violation("no thread dies", text))

    def _fail(self, violation: Violation) -> None:
        """Note the first violation, with which the history ends."""
        if self._violation is None:
            self._violation = violation
            self._simulator.log(f"VIOLATION {violation}")
            self._simulator.call_as(self._simulator.world, 0.0, self._over.send)
