# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Play plans, each in a process of its own that is forked off: none leaves anything to the next."""

import gc
import json
import logging
import os
import select
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict

from tests.simulation.database import SimulatedDatabase
from tests.simulation.history import History, Outcome
from tests.simulation.kernel import Simulator
from tests.simulation.plan import Plan

# What is played before the first fork, so that what all histories need is made once.
WARM_UP = (0, 40)


class _ToHistory(logging.Handler):
    """Notes what the product logs as what happens."""

    def __init__(self, simulator: Simulator) -> None:
        super().__init__(logging.INFO)
        self._simulator = simulator

    def emit(self, record: logging.LogRecord) -> None:
        self._simulator.log(f"says: {record.getMessage()}")


class Player:
    """Plays plans; change is made in each of the processes before, such as a fault put back."""

    def __init__(self, simulator: Simulator, change: Callable[[], None] = lambda: None) -> None:
        self._simulator, self._change = simulator, change
        # Called at the end of each of these processes.
        self.finish: Callable[[], None] = lambda: None
        self._database = SimulatedDatabase(simulator)
        logging.getLogger().handlers = [_ToHistory(simulator)]
        logging.getLogger().setLevel(logging.INFO)
        self._play(Plan.of(*WARM_UP), False)
        gc.freeze()

    def play(self, plan: Plan, recording: bool = False) -> Outcome:
        """Return what a plan comes to, with its log if it is to be recorded."""
        return next(self.play_all([plan], recording))

    def play_all(
        self, plans: Iterable[Plan], recording: bool = False, jobs: int = 1
    ) -> Iterator[Outcome]:
        """Yield what plans come to, so many at a time, in any order."""
        left, running = iter(plans), dict[int, int]()
        while True:
            while len(running) < jobs and (plan := next(left, None)) is not None:
                pid, reads = self._fork(plan, recording)
                running[reads] = pid
            if not running:
                return
            for reads in select.select([*running], [], [])[0]:
                yield _outcome(reads, running.pop(reads))

    def _fork(self, plan: Plan, recording: bool) -> tuple[int, int]:
        reads, writes = os.pipe()
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            os.close(reads)
            gc.disable()
            try:
                self._change()
                found = asdict(self._play(plan, recording))
            # The parent shows what is wrong with the simulation itself.
            except BaseException as error:
                text = "".join(traceback.format_exception(error))
                found = asdict(Outcome(plan.seed, "the simulation failed", text, 0))
            self.finish()
            with os.fdopen(writes, "w") as pipe:
                json.dump(found, pipe)
            os._exit(0)
        os.close(writes)
        return pid, reads

    def _play(self, plan: Plan, recording: bool) -> Outcome:
        self._simulator.begin(plan.seed, recording)
        # What nobody reads is not even made into texts.
        logging.disable(logging.NOTSET if recording else logging.CRITICAL)
        self._database.reset()
        return History(plan, self._simulator, self._database).play()


def _outcome(reads: int, pid: int) -> Outcome:
    with os.fdopen(reads) as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    found = json.loads(text)
    return Outcome(**found | {"lines": tuple(found["lines"])})
