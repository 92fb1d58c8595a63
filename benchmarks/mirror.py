# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What an agent that reads a Nova cloud costs, and how soon it knows of a change.

A private MariaDB has the databases of a Nova cloud: 10,000 hosts in three cells, 50,000 instances.
First its services are still, then each of them sends a heartbeat every ten seconds.
A change is an instance that is new in a cell; it is known when it is in our own database.
"""

import argparse
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from conf.daemon import process

# Before anything imports oslo.messaging, which would choose green threads.
process.refuse_import("eventlet")
process.start_backend("threading")

import sqlalchemy as sa  # noqa: E402

from benchmarks import nova_rows, program  # noqa: E402
from benchmarks.endtoend.ground import processor_seconds  # noqa: E402
from benchmarks.figures import OURS, Figure  # noqa: E402
from inventory.engine import Database  # noqa: E402
from tests.databases import a_uuid  # noqa: E402
from tests.fixtures.daemons.mariadb import MariaDB  # noqa: E402
from tests.fixtures.daemons.process import Guard, Process, wait_until  # noqa: E402
from tests.fixtures.daemons.rabbitmq import RabbitMQ  # noqa: E402
from tests.fixtures.deployment import Deployment  # noqa: E402
from tests.fixtures.whole_nova import DATABASES, WholeNova  # noqa: E402

CELLS = ("cell1", "cell2", "cell3")
INSTANCES_ON_A_HOST = 5
# Seconds: between heartbeats, and how long all may take.
BEAT, PATIENCE = 10, 300.0


@dataclass(frozen=True, slots=True)
class Plan:
    """How many hosts the cloud has, how often what is measured, and how long the processor is."""

    hosts: int
    turns: int
    turn_seconds: float
    changes: int


WHOLE, QUICK = Plan(10_000, 3, 10.0, 20), Plan(500, 1, 2.0, 3)


class Cells:
    """The databases of the cells, and what Nova's services write there."""

    def __init__(self, server: MariaDB, nova: WholeNova, api: str, hosts: int) -> None:
        self.engines = [sa.create_engine(nova.cells["cell1"])]
        self._api = sa.create_engine(api)
        source = str(self.engines[0].url.database)
        for name in CELLS[1:]:
            url = server.copy_database(source, f"nova_{name}")
            self.engines.append(sa.create_engine(url))
            self._enter(name, url)
        names = [f"host{number:05}" for number in range(hosts)]
        for number, (name, engine) in enumerate(zip(CELLS, self.engines, strict=True)):
            own = names[number :: len(CELLS)]
            nova_rows.add_hosts(self._api, engine, name, own)
            places = [each for each in own for _ in range(INSTANCES_ON_A_HOST)]
            uuids = {a_uuid(f"{i} on {host}"): host for i, host in enumerate(places)}
            nova_rows.add_instances(engine, uuids)

    def _enter(self, name: str, url: str) -> None:
        with self._api.begin() as connection:
            cells = nova_rows.table(connection, "cell_mappings")
            row = {"uuid": a_uuid(name), "name": name, "transport_url": "none:///"}
            connection.execute(sa.insert(cells).values(**row, database_connection=url, disabled=0))

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Have a tenth of all services send a heartbeat each second, inside the block."""
        stop = threading.Event()

        def beat() -> None:
            turn = 0
            while not stop.wait(1.0):
                turn = (turn + 1) % BEAT
                self._beat(f"MOD(id, {BEAT}) = {turn}")

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _beat(self, which: str) -> None:
        now = "last_seen_up = UTC_TIMESTAMP(), updated_at = UTC_TIMESTAMP()"
        for engine in self.engines:
            with engine.begin() as connection:
                connection.exec_driver_sql(
                    f"UPDATE services SET report_count = report_count + 1, {now} WHERE {which}"
                )

    def close(self) -> None:
        for each in (self._api, *self.engines):
            each.dispose()


def measure(asked: argparse.Namespace) -> Sequence[Figure]:
    """Return the processor of the agent's polls, and how soon changes are known."""
    plan = QUICK if asked.quick else WHOLE
    with ExitStack() as stack:
        directory = Path(stack.enter_context(TemporaryDirectory(prefix="berthmaster-mirror-")))
        broker = stack.enter_context(RabbitMQ(directory / "broker"))
        server = stack.enter_context(MariaDB(directory / "database"))
        guard = stack.enter_context(Guard())
        urls = {name: server.create_database(name) for name in DATABASES}
        nova = WholeNova(directory, guard, broker.transport_url, urls)
        nova.make_tables()
        cells = Cells(server, nova, urls["nova_api"], plan.hosts)
        stack.callback(cells.close)
        own = server.create_database("berthmaster")
        deployment = Deployment(directory, guard, broker.transport_url, own)
        deployment.sync()
        database = deployment.open_database()
        stack.callback(database.close)
        return [*_figures(plan, cells, deployment, database, urls["nova_api"])]


def _figures(
    plan: Plan, cells: Cells, deployment: Deployment, database: Database, api: str
) -> Iterator[Figure]:
    case = {"hosts": plan.hosts, "cells": len(CELLS)}
    began = time.monotonic()
    agent = deployment.agent(
        "eventlet",
        {
            # Nobody beats while a poll without changes is measured.
            "DEFAULT": {"host": "mirror", "compute_driver": "nova", "service_down_time": 100_000},
            "api_database": {"connection": api},
        },
    )
    _wait_for(database, plan.hosts * INSTANCES_ON_A_HOST)
    yield Figure("all of a Nova cloud known", OURS, "s", [time.monotonic() - began], case)
    for beats in (False, True):
        with cells.beating() if beats else ExitStack():
            # The first seconds still see what has just been made.
            time.sleep(2 * plan.turn_seconds)
            turns = [_processor(agent, plan.turn_seconds) for _ in range(plan.turns)]
        yield Figure("a second of polls", OURS, "ms", turns, {**case, "heartbeats": beats})
    known = [_known(cells, database, number) for number in range(plan.changes)]
    yield Figure("instance in Nova, known", OURS, "s", known, case)


def _processor(agent: Process, seconds: float) -> float:
    """Return the milliseconds of processor that the agent takes in a second."""
    began, before = time.monotonic(), processor_seconds([agent])
    time.sleep(seconds)
    return 1000 * (processor_seconds([agent]) - before) / (time.monotonic() - began)


def _known(cells: Cells, database: Database, number: int) -> float:
    """Return the seconds until a new instance is in our database."""
    uuid, cell = a_uuid(f"new {number}"), number % len(CELLS)
    nova_rows.add_instances(cells.engines[cell], {uuid: f"host{cell:05}"})
    began = time.monotonic()
    _wait_for(database, 1, f"AND uuid = '{uuid}'")
    return time.monotonic() - began


def _wait_for(database: Database, number: int, where: str = "") -> None:
    query = sa.text(f"SELECT COUNT(*) FROM instances WHERE deleted = 0 {where}")

    def is_there() -> bool:
        return bool(database.read(lambda each: each.execute(query).scalar_one()) >= number)

    if not wait_until(is_there, PATIENCE):
        raise TimeoutError(f"the agent has not reported {number} instances")


def report(found: Sequence[Figure]) -> str:
    """Return the figures as lines."""
    lines = []
    for each in found:
        case = ", ".join(f"{name} {value}" for name, value in each.case.items())
        low, high = min(each.turns), max(each.turns)
        lines.append(
            f"{each.what:26} {each.median:8.2f} {each.unit} ({low:.2f} to {high:.2f})   {case}"
        )
    return "\n".join(lines)


def main() -> None:
    program.run(program.parser(__doc__), measure, report)


if __name__ == "__main__":
    main()
