# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What it costs to take a call from the broker and to answer it: an echo behind both intakes.

Each echo is a process that many callers call; its seconds at work are divided by the calls. Run
`python -m benchmarks.intakes`; the same program is the echo where it is given answers.
"""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.endtoend import calls
from benchmarks.endtoend.echo import TOPIC, VARIABLE, EchoService
from conf.daemon import process
from scheduler import cmd

INTAKES, BACKENDS = ("stock", "batched"), ("threading", "eventlet")
CALLERS = 32
WARM_UP, SLICES, SLICE_SECONDS = 3.0, 3, 4.0
# The answer to every call.
HOST = "compute1"


def main() -> None:
    """Echo until told to stop."""
    process.begin(TOPIC, cmd._patch)
    from oslo_config import cfg

    process.configure(cfg.CONF, TOPIC, sys.argv[1:])
    answers = json.loads(Path(os.environ[VARIABLE]).read_text())
    sys.exit(process.serve(cfg.CONF, IntakeEcho(cfg.CONF, answers), 1, ()))


class IntakeEcho(EchoService):
    """A process that echoes what an intake takes."""

    def start(self) -> None:
        """Connect and serve."""
        import oslo_messaging
        from oslo_log import log

        from scheduler.messaging.intake import open_intake
        from scheduler.messaging.transport import rpc_transport

        self._endpoint.target = oslo_messaging.Target(version="4.5")
        target = oslo_messaging.Target(topic=TOPIC, server=self._conf.host)
        number = self._conf.scheduler.max_requests_in_flight
        self._intake = open_intake(rpc_transport(self._conf), target, [self._endpoint], number)
        self._intake.start()
        log.getLogger(__name__).info("Echo %s serves select_destinations", self._conf.host)

    def stop(self) -> None:
        """Answer what was taken, and leave."""
        self._intake.drain()
        super().stop()


def measure() -> Sequence[Any]:
    """Return for how long a process is at work for a call, by intake and backend."""
    process.refuse_import("eventlet")
    process.start_backend("threading")
    from benchmarks.endtoend.callers import Crowd
    from benchmarks.endtoend.ground import IN_FLIGHT, Ground, processor_seconds
    from benchmarks.figures import OURS, Figure
    from tests.fixtures.daemons.process import Guard
    from tests.fixtures.daemons.rabbitmq import RabbitMQ
    from tests.fixtures.deployment import Deployment

    figures = []
    with (
        TemporaryDirectory(prefix="berthmaster-intakes-") as temporary,
        RabbitMQ(Path(temporary) / "rabbitmq") as broker,
        Guard() as guard,
    ):
        directory = Path(temporary)
        deployment = Deployment(directory, guard, broker.transport_url, "sqlite://")
        (directory / "answers.json").write_text(json.dumps({"1": [[{"host": HOST}]]}))
        ground = Ground(directory, broker, None, guard)  # type: ignore[arg-type]  # no database
        for backend in BACKENDS:
            for intake in INTAKES:
                options = {
                    "DEFAULT": {"executor_thread_pool_size": IN_FLIGHT},
                    "scheduler": {"intake": intake, "max_requests_in_flight": IN_FLIGHT},
                }
                name = ground.name(f"{backend}-{intake}-")
                config = deployment.write_config(name, options)
                path = directory / "answers.json"
                echo = ground.program("benchmarks.intakes", name, backend, config, answers=path)
                crowd = Crowd(broker.transport_url, TOPIC, calls.plain(1))
                began = processor_seconds([echo])
                load = crowd.run(CALLERS, WARM_UP, SLICES, SLICE_SECONDS)
                worked = processor_seconds([echo]) - began
                echo.stop(15.0)
                case = {"backend": backend, "intake": intake, "callers": CALLERS}
                facts = {"calls": load.calls, "refused": load.refused}
                cost = [1000 * worked / load.calls]
                figures.append(Figure("echo, processor", OURS, "ms", cost, case, facts))
                figures.append(Figure("echo, rate", OURS, "/s", load.rates, case))
    return figures


def report() -> None:
    """Print the processor time and the rate of each."""
    for figure in measure():
        values = ", ".join(f"{each:.2f}" for each in figure.turns)
        case = f"{figure.case['backend']:9} {figure.case['intake']:7}"
        print(f"{case} {figure.what}: {values} {figure.unit}")


if __name__ == "__main__":
    main() if VARIABLE in os.environ else report()
