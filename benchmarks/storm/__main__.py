# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Storms on schedulers that are real processes: calm ones for figures, broken ones for verdicts.

A private RabbitMQ and MariaDB, one agent that plays all hosts, and schedulers of both backends. In
the storm "broken" processes are killed and connections cut; in "zones" three operators change zones
and switch hosts without a pause; in "galera" they do so on a cluster whose members are late, frozen
and killed, with a scheduler and an operator at each. In all of these some members of server groups
that keep apart are protected. In "standbys" other instances are, too, and among what is killed are
whole racks; so in "galera-standbys", on a cluster. The status is 1 when anything was booked twice,
placed where it may not be, leaked, or not answered, or when an instance had a standby and could not
be evacuated.
"""

import argparse
import logging
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from conf.daemon import process

# Before anything imports oslo.messaging, which would choose green threads.
process.refuse_import("eventlet")
process.start_backend("threading")

from benchmarks import program  # noqa: E402
from benchmarks.check_history import shortened  # noqa: E402
from benchmarks.figures import OURS, Case, Figure  # noqa: E402
from benchmarks.storm import racks, rounds, wishes  # noqa: E402
from benchmarks.storm.cloud import OPERATORS, Cloud, Fleet  # noqa: E402
from benchmarks.storm.cluster import ClusterCloud, MemberFaults  # noqa: E402
from benchmarks.storm.faults import Faults  # noqa: E402
from benchmarks.storm.racks import Racks  # noqa: E402
from benchmarks.storm.rounds import Round  # noqa: E402
from tests.fixtures.daemons.galera import Galera  # noqa: E402
from tests.fixtures.daemons.mariadb import MariaDB  # noqa: E402
from tests.fixtures.daemons.process import Guard  # noqa: E402
from tests.fixtures.daemons.rabbitmq import RabbitMQ  # noqa: E402
from tests.fixtures.deployment import Deployment, Options  # noqa: E402
from tests.fixtures.played import DRIVER  # noqa: E402

SCHEDULERS, CALLERS = 4, 200
STORMS = ("calm", "broken", "zones", "galera", "standbys", "galera-standbys")
# Much room, so that zones and not figures decide.
ROOMY = Fleet(hosts=80, vcpus=200, memory_mb=1_000_000, local_gb=100_000)
# Racks that are soon full, and how many schedulers they have.
RACKED, FEW_SCHEDULERS = Fleet(hosts=30, vcpus=12, driver=DRIVER), 2
KEEPING = {"failover": {"keeper_interval": 1}}
# Seconds of a round on a database that nobody breaks, and faults of one on a cluster.
QUIET, FAULTS = 30.0, 12
VIOLATIONS = "violations"
# What is asked is this much more than what has room.
ASKED = 1 / 0.95
# Durable, as a database is in production: figures of another one would look too good.
DURABLE = ("--innodb-flush-log-at-trx-commit=1",)


@dataclass(frozen=True, slots=True)
class Storm:
    """One storm: its name, what it was in figures' words, and what came of it."""

    name: str
    case: Case
    round: Round

    @property
    def figures(self) -> list[Figure]:
        """What is written down; of storms in which things break, only what went wrong."""
        case = {"storm": self.name, **self.case}
        wrong = Figure(VIOLATIONS, OURS, "", [len(self.round.violations)], case)
        if self.round.faults:
            return [wrong]
        found = self.round.figures
        facts = {"p99_ms": found.p99, "worst_ms": found.worst, "conflicts": found.conflicts}
        return [
            Figure("claimed placements", OURS, "/s", [found.placed / found.seconds], case),
            Figure("answer in a storm", OURS, "ms", [found.p50], case, facts),
            wrong,
        ]


@contextmanager
def a_cloud(
    directory: Path, fleet: Fleet, schedulers: int = SCHEDULERS, options: Options | None = None
) -> Iterator[Cloud]:
    """Yield a cloud that runs; the options are those of schedulers."""
    with ExitStack() as stack:
        broker = stack.enter_context(RabbitMQ(directory / "rabbitmq"))
        server = stack.enter_context(MariaDB(directory / "mariadb", DURABLE))
        guard = stack.enter_context(Guard())
        url = server.create_database("storm")
        deployment = Deployment(directory, guard, broker.transport_url, url)
        deployment.sync()
        cloud = Cloud(deployment, broker, server, fleet)
        cloud.start(schedulers, options)
        yield cloud


@contextmanager
def a_cluster_cloud(
    directory: Path, fleet: Fleet, options: Options | None = None
) -> Iterator[ClusterCloud]:
    """Yield a cloud that runs on a Galera cluster, a scheduler at each member."""
    with ExitStack() as stack:
        broker = stack.enter_context(RabbitMQ(directory / "rabbitmq"))
        cluster = stack.enter_context(Galera(directory / "galera"))
        guard = stack.enter_context(Guard())
        url = cluster.members[0].create_database("storm")
        deployment = Deployment(directory, guard, broker.transport_url, url)
        deployment.sync()
        cloud = ClusterCloud(deployment, broker, cluster, fleet)
        cloud.start(len(cluster.members), options)
        yield cloud


def calm(directory: Path, seed: int, hosts: int, schedulers: int) -> Iterator[Storm]:
    """Yield what comes of a storm for the last slots, and of one of server groups."""
    slots = Fleet(hosts=hosts, vcpus=8)
    case = {"hosts": hosts, "schedulers": schedulers, "callers": CALLERS}
    with a_cloud(directory, slots, schedulers) as cloud:
        capacity = slots.hosts * slots.vcpus
        asked = wishes.slots(seed, round(ASKED * capacity))
        exact = rounds.calm(cloud, directory / "slots.log", asked, CALLERS, capacity)
        yield Storm("calm, slots", case, exact)
        # Members that keep apart need hosts to do so.
        groups = iter(wishes.grouped(seed, groups=hosts // 4, callers=min(8, hosts // 4)))
        apart = rounds.calm(cloud, directory / "groups.log", groups, CALLERS)
        yield Storm("calm, groups", case, apart)


def broken(directory: Path, seed: int, minutes: float) -> Iterator[Storm]:
    """Yield what comes of rounds in which things break, for so many minutes."""
    fleet = Fleet(hosts=200, vcpus=24)
    with a_cloud(directory, fleet, options=KEEPING) as cloud:
        for number in _rounds(cloud, SCHEDULERS, minutes):
            log = directory / f"broken-{number}.log"
            found = rounds.broken(cloud, log, seed + number, faults=18, callers=CALLERS)
            case = {"hosts": fleet.hosts, "schedulers": SCHEDULERS, "callers": CALLERS}
            yield Storm(f"broken, round {number}, seed {seed + number}", case, found)


def zones(directory: Path, seed: int, minutes: float) -> Iterator[Storm]:
    """Yield what comes of rounds in which operators change zones, for so many minutes."""
    with a_cloud(directory, ROOMY, options=KEEPING) as cloud:
        for number in _rounds(cloud, SCHEDULERS, minutes):
            found = rounds.ordered(cloud, _made(directory, number), seed + number, QUIET)
            yield _of_zones(f"zones, round {number}, seed {seed + number}", cloud, found)


def galera(directory: Path, seed: int, minutes: float) -> Iterator[Storm]:
    """Yield the same while members of a cluster are late, frozen and killed."""
    with a_cluster_cloud(directory, ROOMY, KEEPING) as cloud:
        for number in _rounds(cloud, len(cloud.cluster.members), minutes):
            breaker = MemberFaults(cloud, seed + number, FAULTS)
            log = _made(directory, number)
            found = rounds.ordered_and_broken(cloud, log, seed + number, breaker)
            yield _of_zones(f"galera, round {number}, seed {seed + number}", cloud, found)


def standbys(directory: Path, seed: int, minutes: float) -> Iterator[Storm]:
    """Yield what comes of rounds in which racks die, for so many minutes."""
    with a_cloud(directory, RACKED, FEW_SCHEDULERS, KEEPING) as cloud:
        yield from _racked("standbys", cloud, directory, seed, minutes, Faults)


def galera_standbys(directory: Path, seed: int, minutes: float) -> Iterator[Storm]:
    """Yield the same while members of a cluster are late, frozen and killed."""
    with a_cluster_cloud(directory, RACKED, KEEPING) as cloud:
        yield from _racked("galera-standbys", cloud, directory, seed, minutes, MemberFaults)


def _racked(
    name: str, cloud: Any, directory: Path, seed: int, minutes: float, breaks: type[Faults]
) -> Iterator[Storm]:
    racks.build(cloud)
    for number in _rounds(cloud, len(cloud.schedulers), minutes):
        dying = Racks(cloud, seed + number)
        breaker = breaks(cloud, seed + number, FAULTS, {racks.KIND: dying.die})
        found = rounds.racked(cloud, _made(directory, number), seed + number, dying, breaker)
        case = {"hosts": cloud.fleet.hosts, "schedulers": len(cloud.schedulers)}
        yield Storm(f"{name}, round {number}, seed {seed + number}", case, found)


def _rounds(cloud: Cloud, schedulers: int, minutes: float) -> Iterator[int]:
    """Yield numbers of rounds for so many minutes, with schedulers that run."""
    ends = time.monotonic() + 60 * minutes
    for number in count(1):
        yield number
        if time.monotonic() > ends:
            return
        cloud.start_schedulers(schedulers)


def _made(directory: Path, number: int) -> Path:
    made = directory / f"round-{number}"
    made.mkdir()
    return made


def _of_zones(name: str, cloud: Cloud, found: Round) -> Storm:
    case = {"hosts": cloud.fleet.hosts, "schedulers": len(cloud.schedulers), "operators": OPERATORS}
    return Storm(name, case, found)


def summary(name: str, found: Round) -> str:
    """Return what came of a round as lines."""
    faults = ", ".join(f"{number} x {kind}" for kind, number in sorted(found.faults.items()))
    lines = [f"{name}: {found.figures.line()}", f"    {found.summary}"]
    if faults:
        lines.append(f"    {faults}")
    lines += [f"    VIOLATION {each}" for each in shortened(found.violations)]
    return "\n".join([*lines, f"    {len(found.violations)} violations"])


def measure(asked: argparse.Namespace) -> list[Figure]:
    """Return the figures of all storms; what came of each is printed at once."""
    print(f"seed {asked.seed}", flush=True)
    found = []
    with TemporaryDirectory(prefix="berthmaster-storm-") as temporary:
        for storm in _storms(asked.keep or Path(temporary), asked):
            print(summary(storm.name, storm.round), flush=True)
            found += storm.figures
    return found


def _storms(directory: Path, asked: argparse.Namespace) -> Iterator[Storm]:
    for name in asked.storms or (STORMS if asked.minutes else STORMS[:1]):
        (directory / name).mkdir(parents=True)
    if (directory / "calm").exists():
        hosts, schedulers = (24, 2) if asked.quick else (asked.hosts, SCHEDULERS)
        yield from calm(directory / "calm", asked.seed, hosts, schedulers)
    others = {
        **{"broken": broken, "zones": zones, "galera": galera},
        **{"standbys": standbys, "galera-standbys": galera_standbys},
    }
    for name, storm in others.items():
        if (directory / name).exists():
            yield from storm(directory / name, asked.seed, asked.minutes)


def violations(found: Sequence[Figure]) -> int:
    """Return how many things went wrong in all storms."""
    return sum(int(each.median) for each in found if each.what == VIOLATIONS)


def report(found: Sequence[Figure]) -> str:
    """Return the verdict."""
    return f"{violations(found)} violations in all"


def main() -> int:
    # What becomes of orders is in the logs of operators.
    logging.getLogger("oslo_db").setLevel(logging.CRITICAL)
    options = program.parser(__doc__)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--hosts", type=int, default=100, help="Of the calm storms.")
    options.add_argument(
        "--minutes", type=float, default=0, help="How long each storm but the calm one lasts."
    )
    options.add_argument(
        "--storms",
        nargs="*",
        choices=STORMS,
        help="Which; all by default, or with --minutes 0 the calm one.",
    )
    options.add_argument("--keep", type=Path, help="An empty directory for logs, which stay there.")
    return 1 if violations(program.run(options, measure, report)) else 0


if __name__ == "__main__":
    sys.exit(main())
