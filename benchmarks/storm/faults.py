# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What is broken while callers ask: which faults in which order, and how they are done.

The same seed plans the same faults. When each of them comes depends on how long the ones before
take, since a broker that starts has its own time.
"""

import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from benchmarks.storm.cloud import Cloud
from tests.fixtures.daemons.process import Process

KINDS = (
    "kill a scheduler",
    "kill a scheduler",
    "pause a scheduler",
    "cut connections to the database",
    "cut connections to the broker",
    "kill the database",
    "pause the database",
    "restart the broker",
    "kill the agent",
)
# Seconds between two faults, and during which one lasts.
PAUSES, LENGTHS = (0.3, 1.0), (0.2, 1.5)


@dataclass(frozen=True, slots=True)
class Fault:
    """What is broken, which one of several, how long after the last one and for how long."""

    kind: str
    target: int
    after: float
    seconds: float


def plan(seed: int, schedulers: int, kinds: Sequence[str] = KINDS) -> Iterator[Fault]:
    """Yield faults without end: each kind once in some order, then again in another one."""
    chance = random.Random(seed)
    while True:
        for kind in chance.sample(kinds, len(kinds)):
            yield Fault(
                kind,
                chance.randrange(schedulers),
                chance.uniform(*PAUSES),
                chance.uniform(*LENGTHS),
            )


def family(process: Process) -> list[int]:
    """Return the pids of a process and its descendants, who do the work of some."""
    found = [process.pid]
    for pid in found:
        # Each thread has the children that it has started itself.
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            # A thread may have ended by now.
            with suppress(OSError):
                found += map(int, children.read_text().split())
    return found


def kill(process: Process) -> None:
    """Kill a process with its children: the first of all those who would start others."""
    pids = family(process)
    _send(pids, signal.SIGKILL)
    process.wait(10)


def _send(pids: Iterable[int], signum: int) -> None:
    for pid in pids:
        # It may have ended by itself.
        with suppress(ProcessLookupError):
            os.kill(pid, signum)


class Faults(threading.Thread):
    """Breaks a cloud as planned, so often or until told to stop, and leaves it whole.

    more are kinds of faults that only some storms have; they come at the end once more.
    """

    kinds: Sequence[str] = KINDS

    def __init__(
        self,
        cloud: Cloud,
        seed: int,
        number: int,
        more: Mapping[str, Callable[[Fault], object]] | None = None,
    ) -> None:
        super().__init__(name="faults", daemon=True)
        self._cloud, self._stopped, self._more = cloud, threading.Event(), more or {}
        planned = plan(seed, len(cloud.schedulers), [*self.kinds, *self._more])
        self._plan = list(islice(planned, number))
        self._plan += [Fault(kind, 0, *PAUSES) for kind in self._more]
        self.done: Counter[str] = Counter()
        self.error: BaseException | None = None

    def run(self) -> None:
        for fault in self._plan:
            if self._stopped.wait(fault.after):
                return
            try:
                self._cloud.restart_exited_agent()
                {**self._actions(), **self._more}[fault.kind](fault)
            # Told to whoever waits for the end: in a thread nobody else would see it.
            except Exception as error:
                self.error = error
                return
            self.done[fault.kind] += 1

    def stop(self) -> None:
        """Wait for the fault under way, do no more; raises what kept the cloud from being whole."""
        self._stopped.set()
        self.join()
        self._cloud.heal()
        if self.error:
            raise self.error

    def _actions(self) -> dict[str, Callable[[Fault], object]]:
        cloud = self._cloud
        return {
            "kill a scheduler": self._kill_scheduler,
            "pause a scheduler": self._pause_scheduler,
            "cut connections to the database": lambda _: cloud.cut_database_connections(),
            "cut connections to the broker": lambda _: cloud.cut_broker_connections(),
            "kill the database": self._kill_database,
            "pause the database": self._pause_database,
            "restart the broker": lambda _: cloud.broker.restart(),
            "kill the agent": self._kill_agent,
        }

    def _kill_scheduler(self, fault: Fault) -> None:
        kill(self._cloud.schedulers[fault.target])
        self._stopped.wait(fault.seconds)
        self._cloud.start_scheduler(fault.target)

    def _pause_scheduler(self, fault: Fault) -> None:
        """Let it be late: what it knows is old when it goes on."""
        workers = family(self._cloud.schedulers[fault.target])
        _send(workers, signal.SIGSTOP)
        self._stopped.wait(2 * fault.seconds)
        _send(workers, signal.SIGCONT)

    def _kill_database(self, fault: Fault) -> None:
        self._cloud.server.kill()
        self._stopped.wait(fault.seconds)
        self._cloud.server.start()

    def _pause_database(self, fault: Fault) -> None:
        self._cloud.server.pause()
        self._stopped.wait(2 * fault.seconds)
        self._cloud.server.resume()

    def _kill_agent(self, fault: Fault) -> None:
        kill(self._cloud.agent)
        self._stopped.wait(fault.seconds)
        self._cloud.start_agent()
