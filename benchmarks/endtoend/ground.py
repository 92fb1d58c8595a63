# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Where it is measured: a private broker and database, schedulers and echoes as processes."""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.endtoend import echo, fleet
from benchmarks.nova import ROOT
from scheduler.messaging.server import PREFETCH
from tests.fixtures.daemons.daemon import Daemon
from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.daemons.process import Guard, Process
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.fixtures.deployment import Deployment, Options, wait_for_log

# Durable and with room for all rows, as a database is in production.
DURABLE = ("--innodb-flush-log-at-trx-commit=1", "--innodb-buffer-pool-size=256M")
# What a process takes from the broker at a time, echo and scheduler alike.
IN_FLIGHT = 30
STOP = 15.0
SERVES = "serves select_destinations"


@dataclass(frozen=True, slots=True)
class Serving:
    """How calls are served: by so many processes, each with so many workers."""

    backend: str = "threading"
    claims: bool = True
    workers: int = 1
    schedulers: int = 1

    @property
    def options(self) -> Options:
        """What the configuration files say of it."""
        return {
            # Nobody beats for the fleet.
            "DEFAULT": {"service_down_time": 3600},
            "scheduler": {"workers": self.workers, "max_requests_in_flight": IN_FLIGHT},
            "claims": {"enabled": self.claims},
        }


class Ground:
    """A broker, a database server, and what runs on them."""

    def __init__(self, directory: Path, broker: RabbitMQ, server: MariaDB, guard: Guard) -> None:
        self.directory, self.url = directory, broker.transport_url
        self.shared = {"broker": broker, "database": server}
        self._server, self._guard = server, guard
        self._numbers = count(1)

    def deployment(self, hosts: int) -> Deployment:
        """Return a deployment with a database of so many hosts."""
        directory = self.directory / f"fleet{hosts}"
        directory.mkdir()
        url = self._server.create_database(f"fleet{hosts}")
        found = Deployment(directory, self._guard, self.url, url)
        found.sync()
        database = found.open_database()
        fleet.store(database, hosts)
        database.close()
        return found

    def name(self, kind: str) -> str:
        """Return a name that no other process has: its log begins with it."""
        return f"{kind}{next(self._numbers)}"

    @contextmanager
    def schedulers(self, deployment: Deployment, serving: Serving) -> Iterator[list[Process]]:
        """Let schedulers serve."""

        def start(_: int) -> Process:
            name = self.name("scheduler")
            return deployment.scheduler(serving.backend, serving.options, name=name)

        with _running(start, serving.schedulers) as processes:
            yield processes

    @contextmanager
    def echoes(
        self, deployment: Deployment, serving: Serving, answers: Mapping[int, Any]
    ) -> Iterator[list[Process]]:
        """Let echoes serve as schedulers would, with answers by the number of instances."""
        path = self.directory / "answers.json"
        path.write_text(json.dumps(answers))
        default = {"executor_thread_pool_size": IN_FLIGHT}
        options = {
            "DEFAULT": default,
            "scheduler": {"workers": serving.workers},
            "oslo_messaging_rabbit": {"rabbit_qos_prefetch_count": PREFETCH},
        }

        def start(_: int) -> Process:
            name = self.name("echo")
            config = deployment.write_config(name, options)
            return self.program(echo.__name__, name, serving.backend, config, answers=path)

        with _running(start, serving.schedulers) as processes:
            yield processes

    def program(self, module: str, name: str, backend: str, config: Path, **files: Path) -> Process:
        """Start a program of these benchmarks and wait until it serves."""
        command = [sys.executable, "-m", module, f"--config-file={config}"]
        variables = {
            "PYTHONPATH": str(ROOT),
            "BERTHMASTER_CONCURRENCY_BACKEND": backend,
            **{f"BERTHMASTER_{key.upper()}": str(path) for key, path in files.items()},
        }
        process = self._guard.start(name, command, config.parent, variables)
        wait_for_log(process, SERVES)
        return process


@contextmanager
def a_ground(directory: Path) -> Iterator[Ground]:
    """Yield a ground, whose daemons end with it."""
    with ExitStack() as stack:
        broker, server = RabbitMQ(directory / "rabbitmq"), MariaDB(directory / "mariadb", DURABLE)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(stack.enter_context, (broker, server)))
        yield Ground(directory, broker, server, stack.enter_context(Guard()))


@contextmanager
def _running(start: Any, number: int) -> Iterator[list[Process]]:
    with ThreadPoolExecutor(number) as pool:
        processes: Sequence[Process] = list(pool.map(start, range(number)))
        try:
            yield list(processes)
        finally:
            list(pool.map(lambda each: each.stop(STOP), processes))


def processor_seconds(processes: Sequence[Process]) -> float:
    """Return for how long processes, and all that they have forked, have been at work."""
    ticks = 0
    for pid in (each for process in processes for each in _family(process.pid)):
        # Behind the name, which may have blanks: the ticks are the 14th and 15th word.
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(words[11]) + int(words[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def seconds_by_name(daemons: Mapping[str, Daemon]) -> dict[str, float]:
    """Return for how long daemons have been at work, by their names."""
    return {name: processor_seconds([each.process]) for name, each in daemons.items()}


def _family(pid: int) -> Iterator[int]:
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            yield from _family(int(child))
