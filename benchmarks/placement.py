# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""select_destinations with allocations in Placement: Nova's own scheduler and ours in one cloud.

A private broker, MariaDB and Placement have a Nova cloud of 1,000 hosts. First a genuine
nova-scheduler is called, then a scheduler of ours with an agent that reads Nova's databases; the
same calls, by one caller and by eight. Placement has one thread for both.
"""

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from conf.daemon import process

# Before anything imports oslo.messaging, which would choose green threads.
process.refuse_import("eventlet")
process.start_backend("threading")

import sqlalchemy as sa  # noqa: E402

from benchmarks import program  # noqa: E402
from benchmarks.endtoend import calls  # noqa: E402
from benchmarks.endtoend.callers import OneCaller  # noqa: E402
from benchmarks.figures import NOVA, OURS, Figure  # noqa: E402
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
NODE: Mapping[str, Any] = {
    "vcpus": 64,
    "memory_mb": 262144,
    "local_gb": 4000,
    "vcpus_used": 0,
    "memory_mb_used": 512,
    "local_gb_used": 0,
    "free_ram_mb": 261632,
    "free_disk_gb": 4000,
    "disk_available_least": 4000,
    "hypervisor_type": "QEMU",
    "hypervisor_version": 7002022,
    "current_workload": 0,
    "running_vms": 0,
    "cpu_info": "{}",
    "host_ip": "127.0.0.1",
    "supported_instances": '[["x86_64", "kvm", "hvm"], ["x86_64", "qemu", "hvm"]]',
    "metrics": "[]",
    "stats": "{}",
    "cpu_allocation_ratio": 4.0,
    "ram_allocation_ratio": 1.0,
    "disk_allocation_ratio": 1.0,
    "mapped": 1,
    "deleted": 0,
}
SERVICE: Mapping[str, Any] = {
    "binary": "nova-compute",
    "topic": "compute",
    "report_count": 1,
    "disabled": 0,
    "deleted": 0,
    "forced_down": 0,
    # The oldest that Nova 34 serves; newer ones would have to have more traits.
    "version": 72,
}
# Total and ratio of each resource class.
INVENTORIES = {"VCPU": (64, 4.0), "MEMORY_MB": (262144, 1.0), "DISK_GB": (4000, 1.0)}


@dataclass(frozen=True, slots=True)
class Plan:
    """How many calls each side gets for each number of callers; Nova's take seconds."""

    hosts: int
    of_nova: Mapping[int, int]
    of_ours: Mapping[int, int]


WHOLE = Plan(HOSTS, {1: 8, 8: 16}, {1: 100, 8: 200})
QUICK = Plan(FEWER_HOSTS, {1: 5, 8: 16}, {1: 40, 8: 80})


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
        nova, urls = self.nova, self.urls
        later = {"later_cell0": urls["nova_cell0"], "later_cell1": urls["nova_cell1"]}
        nova.make_tables({**later, "later_transport_url": self.url})
        nova.start_placement()
        names = [f"host{number:05}" for number in range(hosts)]
        self._add_hosts(names)
        self._add_providers(names)
        self.deployment.sync()

    def _add_hosts(self, names: Sequence[str]) -> None:
        """Let Nova's databases have hosts."""
        now = sa.func.utc_timestamp()
        api, cell = (
            sa.create_engine(self.urls["nova_api"]),
            sa.create_engine(self.urls["nova_cell1"]),
        )
        with api.begin() as connection:
            cells = _table(connection, "cell_mappings")
            number = connection.execute(
                sa.select(cells.c.id).where(cells.c.name == "cell1")
            ).scalar_one()
            rows = [{"host": each, "cell_id": number} for each in names]
            connection.execute(sa.insert(_table(connection, "host_mappings")), rows)
        with cell.begin() as connection:
            services = sa.insert(_table(connection, "services")).values(
                created_at=now, updated_at=now, last_seen_up=now
            )
            uuids = [{"host": each, "uuid": a_uuid(f"service {each}")} for each in names]
            connection.execute(services, [{**SERVICE, **each} for each in uuids])
            nodes = sa.insert(_table(connection, "compute_nodes")).values(
                created_at=now, updated_at=now
            )
            own = [
                {"host": each, "hypervisor_hostname": each, "uuid": a_uuid(each)} for each in names
            ]
            connection.execute(nodes, [{**NODE, **each} for each in own])
        api.dispose()
        cell.dispose()

    def _add_providers(self, names: Sequence[str]) -> None:
        """Let Placement have the same hosts."""
        engine = sa.create_engine(self.urls["placement"])
        with engine.begin() as connection:
            providers = _table(connection, "resource_providers")
            rows = [{"name": each, "uuid": a_uuid(each), "generation": 1} for each in names]
            connection.execute(sa.insert(providers), rows)
            connection.execute(sa.update(providers).values(root_provider_id=providers.c.id))
            classes = _table(connection, "resource_classes")
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
            connection.execute(sa.insert(_table(connection, "inventories")), rows)
        engine.dispose()

    def forget_allocations(self) -> int:
        """Delete all allocations; return for how many instances there were some."""
        engine = sa.create_engine(self.urls["placement"])
        with engine.begin() as connection:
            connection.execute(sa.delete(_table(connection, "allocations")))
            number = connection.execute(sa.delete(_table(connection, "consumers"))).rowcount
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


def _table(connection: sa.Connection, name: str) -> sa.Table:
    return sa.Table(name, sa.MetaData(), autoload_with=connection)


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
        return [*found, *_figures(OURS, cloud, plan.hosts, plan.of_ours)]


def _made(path: Path) -> Path:
    path.mkdir()
    return path


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
    lines = []
    for each in found:
        callers = each.case["callers"]
        said = f"   nova / ours {novas[callers] / each.median:.1f}" if each.who == OURS else ""
        line = f"{each.what}, {callers} callers, {each.who:5} p50 {each.median:9.1f} ms{said}"
        lines.append(f"{line}   {each.facts['allocated']} of {each.facts['calls']} allocated")
    return "\n".join(lines)


def main() -> None:
    program.run(program.parser(__doc__), measure, report)


if __name__ == "__main__":
    main()
