# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Storms on schedulers that are real processes: calm ones for figures, broken ones for verdicts.

A private RabbitMQ and MariaDB, one agent that plays all hosts, and schedulers of both backends.
The status is 1 when anything was booked twice, leaked, or not answered.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from conf import process

# Before anything imports oslo.messaging, which would choose green threads.
process.refuse_import("eventlet")
process.start_backend("threading")

from benchmarks.check_history import shortened  # noqa: E402
from benchmarks.storm import rounds, wishes  # noqa: E402
from benchmarks.storm.cloud import Cloud, Fleet  # noqa: E402
from benchmarks.storm.rounds import Round  # noqa: E402
from tests.fixtures.daemons.mariadb import MariaDB  # noqa: E402
from tests.fixtures.daemons.process import Guard  # noqa: E402
from tests.fixtures.daemons.rabbitmq import RabbitMQ  # noqa: E402
from tests.fixtures.deployment import Deployment  # noqa: E402

SCHEDULERS, CALLERS = 4, 200
# What is asked is this much more than what has room.
ASKED = 1 / 0.95
# Durable, as a database is in production: figures of another one would promise too much.
DURABLE = ("--innodb-flush-log-at-trx-commit=1",)


@contextmanager
def a_cloud(directory: Path, fleet: Fleet, schedulers: int = SCHEDULERS) -> Iterator[Cloud]:
    """Yield a cloud that runs."""
    with ExitStack() as stack:
        broker = stack.enter_context(RabbitMQ(directory / "rabbitmq"))
        server = stack.enter_context(MariaDB(directory / "mariadb", DURABLE))
        guard = stack.enter_context(Guard())
        url = server.create_database("storm")
        deployment = Deployment(directory, guard, broker.transport_url, url)
        deployment.sync()
        cloud = Cloud(deployment, broker, server, fleet)
        cloud.start(schedulers)
        yield cloud


def calm(directory: Path, seed: int) -> list[Round]:
    """Return what came of a storm for the last slots, and of one of server groups."""
    slots = Fleet(hosts=190, vcpus=8)
    with a_cloud(directory, slots) as cloud:
        capacity = slots.hosts * slots.vcpus
        asked = wishes.slots(seed, round(ASKED * capacity))
        exact = rounds.calm(cloud, directory / "slots.log", asked, CALLERS, capacity)
        groups = iter(wishes.grouped(seed, groups=50, callers=8))
        apart = rounds.calm(cloud, directory / "groups.log", groups, CALLERS)
    return [exact, apart]


def broken(directory: Path, seed: int, minutes: float) -> Iterator[Round]:
    """Yield what comes of rounds in which things break, for so many minutes."""
    ends = time.monotonic() + 60 * minutes
    with a_cloud(directory, Fleet(hosts=200, vcpus=24)) as cloud:
        number = 0
        while number == 0 or time.monotonic() < ends:
            number += 1
            log = directory / f"broken-{number}.log"
            yield rounds.broken(cloud, log, seed + number, faults=18, callers=CALLERS)
            cloud.start_schedulers(SCHEDULERS)


def told(name: str, found: Round) -> str:
    """Return what came of a round as lines."""
    faults = ", ".join(f"{number} x {kind}" for kind, number in sorted(found.faults.items()))
    lines = [f"{name}: {found.figures.line()}", f"    {found.told}"]
    if faults:
        lines.append(f"    {faults}")
    lines += [f"    VIOLATION {each}" for each in shortened(found.violations)]
    return "\n".join([*lines, f"    {len(found.violations)} violations"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--minutes", type=float, default=0, help="How long to break things; 0: not."
    )
    parser.add_argument("--keep", type=Path, help="An empty directory for logs, which stay there.")
    asked = parser.parse_args()
    print(f"seed {asked.seed}", flush=True)
    violations = 0
    with TemporaryDirectory(prefix="berthmaster-storm-") as temporary:
        directory = asked.keep or Path(temporary)
        for name, found in _rounds(directory, asked.seed, asked.minutes):
            print(told(name, found), flush=True)
            violations += len(found.violations)
    print(f"{violations} violations in all")
    return 1 if violations else 0


def _rounds(directory: Path, seed: int, minutes: float) -> Iterator[tuple[str, Round]]:
    (directory / "calm").mkdir(parents=True)
    exact, apart = calm(directory / "calm", seed)
    yield "calm, slots ", exact
    yield "calm, groups", apart
    if minutes:
        (directory / "broken").mkdir()
        for number, found in enumerate(broken(directory / "broken", seed, minutes), 1):
            yield f"broken, round {number}, seed {seed + number}", found


if __name__ == "__main__":
    sys.exit(main())
