# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""select_destinations with allocations in Placement: Nova's own scheduler and ours in one cloud.

A private broker, MariaDB and Placement have a Nova cloud of 1,000 hosts. First a genuine
nova-scheduler is called, then a scheduler of ours with an agent that reads Nova's databases; the
same calls, by one caller and by eight. Placement has one thread for both. Last, calls of ours and
a bare POST /allocations go by turns: what Placement takes by itself, on the same machine as busy as
it was.
"""

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPConnection
from itertools import count, cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from conf.daemon import process

# Before anything imports oslo.messaging, which would choose green threads.
process.refuse_import("eventlet")
process.start_backend("threading")

import sqlalchemy as sa  # noqa: E402

from benchmarks import nova_rows, program  # noqa: E402
from benchmarks.endtoend import calls  # noqa: E402
from benchmarks.endtoend.callers import OneCaller  # noqa: E402
from benchmarks.figures import FLOOR, NOVA, OURS, Figure  # noqa: E402
from inventory.nova.placement_session import MICROVERSION  # noqa: E402
from scheduler.api.scheduler_endpoint import TOPIC  # noqa: E402
from tests.databases import a_uuid  # noqa: E402
from tests.fixtures.daemons.mariadb import MariaDB  # noqa: E402
from tests.fixtures.daemons.process import Guard, wait_until  # noqa: E402
from tests.fixtures.daemons.rabbitmq import RabbitMQ  # noqa: E402
from tests.fixtures.deployment import Deployment  # noqa: E402
from tests.fixtures.served_nova import schedulers  # noqa: E402
from tests.fixtures.whole_nova import DATABASES, WholeNova  # noqa: E402

HOSTS, FEWER_HOSTS = 1000, 100
CALLERS = (1, 8)
# Seconds. Nobody beats for the hosts; and how long all may take to begin.
ALIVE, START = 100_000, 180.0
# Total and ratio of each resource class.
INVENTORIES = {"VCPU": (64, 4.0), "MEMORY_MB": (262144, 1.0), "DISK_GB": (4000, 1.0)}


BESIDE = "select beside a bare POST /allocations"


@dataclass(frozen=True, slots=True)
class Plan:
    """How many calls each side gets for each number of callers; Nova's take seconds."""

    hosts: int
    of_nova: Mapping[int, int]
    of_ours: Mapping[int, int]


WHOLE = Plan(HOSTS, {1: 8, 8: 16}, {1: 100, 8: 200})
QUICK = Plan(FEWER_HOSTS, {1: 2, 8: 8}, {1: 10, 8: 16})


class Cloud:
    """A Nova cloud of so many hosts, which only its databases know of."""

    def __init__(self, directory: Path, guard: Guard, broker: RabbitMQ, server: MariaDB) -> None:
        self.url = broker.transport_url
        self.urls = {name: server.create_database(name) for name in DATABASES}
        self.nova = WholeNova(directory, guard, self.url, self.urls)
        own = server.create_database("berthmaster")
        self.deployment = Deployment(directory, guard, self.url, own)

    def make(self, hosts: int) -> None:
        """Make all tables and rows, and start Placement."""
        self.nova.make_tables()
        self.nova.start_placement()
        names = _names(hosts)
        api, cell = (sa.create_engine(self.urls[each]) for each in ("nova_api", "nova_cell1"))
        nova_rows.add_hosts(api, cell, "cell1", names)
        api.dispose()
        cell.dispose()
        self._add_providers(names)
        self.deployment.sync()

    def _add_providers(self, names: Sequence[str]) -> None:
        """Add the same hosts to Placement, as providers with inventories."""
        engine = sa.create_engine(self.urls["placement"])
        with engine.begin() as connection:
            providers = nova_rows.table(connection, "resource_providers")
            rows = [{"name": each, "uuid": a_uuid(each), "generation": 1} for each in names]
            connection.execute(sa.insert(providers), rows)
            connection.execute(sa.update(providers).values(root_provider_id=providers.c.id))
            classes = nova_rows.table(connection, "resource_classes")
            numbers = {row.name: row.id for row in connection.execute(sa.select(classes))}
            found = connection.execute(sa.select(providers.c.id)).scalars().all()
            rows = [
                {
                    "resource_provider_id": provider,
                    "resource_class_id": numbers[name],
                    "total": total,
                    "reserved": 0,
                    "min_unit": 1,
                    "max_unit": total,
                    "step_size": 1,
                    "allocation_ratio": ratio,
                }
                for provider in found
                for name, (total, ratio) in INVENTORIES.items()
            ]
            connection.execute(sa.insert(nova_rows.table(connection, "inventories")), rows)
        engine.dispose()

    def forget_allocations(self) -> int:
        """Delete all allocations; return for how many instances there were some."""
        engine = sa.create_engine(self.urls["placement"])
        with engine.begin() as connection:
            connection.execute(sa.delete(nova_rows.table(connection, "allocations")))
            number = connection.execute(
                sa.delete(nova_rows.table(connection, "consumers"))
            ).rowcount
        engine.dispose()
        return number

    def serve_by_ours(self, hosts: int) -> None:
        """Start an agent that reads Nova's databases, and a scheduler when all hosts are there."""
        down = {"service_down_time": ALIVE}
        mirror = {"host": "mirror", "compute_driver": "nova", **down}
        api = {"connection": self.urls["nova_api"]}
        self.deployment.agent("eventlet", {"DEFAULT": mirror, "api_database": api})
        database = self.deployment.open_database()
        query = sa.text("SELECT COUNT(*) FROM compute_nodes WHERE deleted = 0")

        def are_known() -> bool:
            return bool(database.read(lambda each: each.execute(query).scalar_one()) == hosts)

        if not wait_until(are_known, START):
            raise TimeoutError(f"the agent has not reported all {hosts} hosts")
        database.close()
        options = {"DEFAULT": down, "placement": self.nova.placement}
        self.deployment.scheduler("threading", options)


def measure(asked: argparse.Namespace) -> Sequence[Figure]:
    """Return what calls take, and whether each of them has become an allocation."""
    plan = QUICK if asked.quick else WHOLE
    with (
        TemporaryDirectory(prefix="berthmaster-placement-") as temporary,
        RabbitMQ(_made(Path(temporary) / "broker")) as broker,
        MariaDB(_made(Path(temporary) / "database")) as server,
        Guard() as guard,
    ):
        cloud = Cloud(_made(Path(temporary) / "cloud"), guard, broker, server)
        cloud.make(plan.hosts)
        with (cloud.nova.directory / "nova.conf").open("a") as config:
            config.write(f"[DEFAULT]\nservice_down_time = {ALIVE}\n")
        novas = cloud.nova.start_scheduler()
        novas.wait_ready(lambda: schedulers(cloud.url), START)
        found = [*_figures(NOVA, cloud, plan.hosts, plan.of_nova)]
        novas.stop(START)
        cloud.serve_by_ours(plan.hosts)
        found += _figures(OURS, cloud, plan.hosts, plan.of_ours)
        return [*found, *_beside_placement(cloud, plan.hosts, plan.of_ours[1])]


def _names(hosts: int) -> list[str]:
    return [f"host{number:05}" for number in range(hosts)]


def _made(path: Path) -> Path:
    path.mkdir()
    return path


class _BarePlacement:
    """Writes one allocation after the other on a connection that stays open."""

    def __init__(self, cloud: Cloud, hosts: int) -> None:
        url = urlsplit(str(cloud.nova.placement["endpoint_override"]))
        self._connection = HTTPConnection(url.netloc)
        self._path = f"{url.path}/allocations"
        self._headers = {
            "X-Auth-Token": str(cloud.nova.placement["token"]),
            "OpenStack-API-Version": f"placement {MICROVERSION}",
            "Content-Type": "application/json",
        }
        self._nodes = cycle(a_uuid(name) for name in _names(hosts))
        self._numbers = count()

    def post(self) -> None:
        resources = {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1}
        document = {
            "allocations": {next(self._nodes): {"resources": resources}},
            "project_id": "project",
            "user_id": "user",
            "consumer_generation": None,
        }
        body = json.dumps({a_uuid(f"consumer {next(self._numbers)}"): document})
        self._connection.request("POST", self._path, body, self._headers)
        response = self._connection.getresponse()
        response.read()
        if response.status != 204:
            raise RuntimeError(f"POST {self._path}: {response.status} {response.reason}")

    def close(self) -> None:
        self._connection.close()


def _beside_placement(cloud: Cloud, hosts: int, number: int) -> Iterator[Figure]:
    """Yield what calls of ours and bare requests to Placement take, in ms, by turns."""
    caller, bare = OneCaller(cloud.url), _BarePlacement(cloud, hosts)
    ask, asked = caller.asker(TOPIC), calls.plain(1)
    turns: dict[str, list[float]] = {OURS: [], FLOOR: []}
    # The first ones make connections.
    for turn in range(1 + number):
        for who, work in ((OURS, lambda: ask(next(asked))), (FLOOR, bare.post)):
            began = time.perf_counter()
            work()
            if turn:
                turns[who].append(1000 * (time.perf_counter() - began))
    caller.close()
    bare.close()
    facts = {"allocated": cloud.forget_allocations() // 2 - 1, "calls": number}
    for who, found in turns.items():
        yield Figure(BESIDE, who, "ms", found, {"hosts": hosts, "callers": 1}, facts)


def _figures(who: str, cloud: Cloud, hosts: int, numbers: Mapping[int, int]) -> Iterator[Figure]:
    """Yield what calls take, in ms, by so many callers at a time."""
    caller = OneCaller(cloud.url)
    ask, asked = caller.asker(TOPIC), calls.plain(1)
    # The first call makes connections.
    ask(next(asked))
    for callers in CALLERS:
        cloud.forget_allocations()

        def timed(call: calls.Call) -> float:
            began = time.perf_counter()
            ask(call)
            return 1000 * (time.perf_counter() - began)

        with ThreadPoolExecutor(callers) as pool:
            turns = list(pool.map(timed, [next(asked) for _ in range(numbers[callers])]))
        facts = {"allocated": cloud.forget_allocations(), "calls": len(turns)}
        case = {"hosts": hosts, "callers": callers}
        yield Figure("select with allocations", who, "ms", turns, case, facts)
    caller.close()


def report(found: Sequence[Figure]) -> str:
    """Return the figures as lines, and how many times as long Nova's take."""
    novas = {each.case["callers"]: each.median for each in found if each.who == NOVA}
    floors = [each.median for each in found if each.who == FLOOR]
    lines = []
    for each in found:
        callers, said = each.case["callers"], ""
        if each.who == OURS and each.what == BESIDE:
            said = f"   ours / bare {each.median / floors[0]:.2f}"
        elif each.who == OURS:
            said = f"   nova / ours {novas[callers] / each.median:.1f}"
        line = f"{each.what}, {callers} callers, {each.who:5} p50 {each.median:9.1f} ms{said}"
        lines.append(f"{line}   {each.facts['allocated']} of {each.facts['calls']} allocated")
    return "\n".join(lines)


def main() -> None:
    program.run(program.parser(__doc__), measure, report)


if __name__ == "__main__":
    main()
