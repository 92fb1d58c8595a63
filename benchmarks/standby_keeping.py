# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How long protected instances are without standbys after a rack has died.

A private MariaDB with the rows of hosts in four racks, and as many protected instances on each. A
rack dies, the keeper finds those standbys anew that it held for others, its instances are
evacuated, and the keeper looks again. Who has no standby then is named with the reason. Times are
those of the clock, with the server's.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from conf.daemon import process

# Before anything imports oslo.messaging, which would choose green threads.
process.refuse_import("eventlet")
process.start_backend("threading")

import sqlalchemy as sa  # noqa: E402

from benchmarks import program  # noqa: E402
from benchmarks.claiming import configured  # noqa: E402
from benchmarks.figures import OURS, Figure, plain  # noqa: E402
from benchmarks.view import SERVER  # noqa: E402
from inventory import aggregates, migrations  # noqa: E402
from inventory.claims.types import CONFIRMED  # noqa: E402
from inventory.engine import Database  # noqa: E402
from inventory.objects.aggregate import FAILURE_DOMAIN  # noqa: E402
from inventory.objects.standby import EXTRA_SPEC, PREFERRED  # noqa: E402
from inventory.operations import service_operations  # noqa: E402
from inventory.tables import allocations, standbys  # noqa: E402
from scheduler.claims.standby_keeper import StandbyKeeper  # noqa: E402
from scheduler.select_destinations.destination_builder import build_destinations  # noqa: E402
from scheduler.wire.arguments import SelectArguments  # noqa: E402
from scheduler.wire.context import RequestContext  # noqa: E402
from tests.builders import a_request  # noqa: E402
from tests.databases import a_node, a_uuid, open_at, save, serve  # noqa: E402
from tests.fixtures.daemons.mariadb import MariaDB  # noqa: E402

DIED, EVACUATED = "keeper after a rack died", "keeper after its instances were evacuated"
RACKS = 4
# How many instances a request asks for.
TOGETHER = 50


@dataclass(frozen=True, slots=True)
class Plan:
    """How many hosts a rack has, and how many protected instances."""

    hosts: int
    instances: int


WHOLE, QUICK = Plan(50, 1_000), Plan(5, 20)


class Cloud:
    """Hosts in racks, with protected instances that have standbys."""

    def __init__(self, database: Database, plan: Plan) -> None:
        self.database, self._plan, self._numbers = database, plan, count()
        self.racks = {
            f"rack{rack}": [f"rack{rack}-host{number}" for number in range(plan.hosts)]
            for rack in range(RACKS)
        }
        names = [host for hosts in self.racks.values() for host in hosts]
        save(database, *map(a_node, names))
        serve(database, *names)
        for rack, hosts in self.racks.items():
            of = {"name": rack, "hosts": hosts, "metadata": {FAILURE_DOMAIN: rack}}
            database.write(partial(aggregates.create, **of))
        conf = configured()
        filters = ["ComputeFilter", "RamFilter", "CoreFilter", "DiskFilter"]
        conf.set_override("enabled_filters", filters, "filter_scheduler")
        self._scheduler = each = build_destinations(conf, database)
        self.keeper = StandbyKeeper(
            database, each.host_cache, lambda: each.driver.plan, lambda: each.claimer
        )

    def fill(self) -> None:
        """Place the instances, and let them arrive."""
        number = RACKS * self._plan.instances
        uuids = [a_uuid(f"protected {each}") for each in range(number)]
        for first in range(0, number, TOGETHER):
            self._ask(uuids[first : first + TOGETHER])
        self._arrive()

    def lose(self, rack: str) -> None:
        """Let a rack die."""
        work = partial(service_operations.force_down, hosts=self.racks[rack], down=True)
        self.database.write(work)

    def evacuate(self, rack: str) -> int:
        """Evacuate the instances of a rack, and let them arrive; return how many."""
        c = allocations.c
        query = sa.select(c.instance_uuid, c.host).where(c.host.in_(self.racks[rack]))
        lost = self.database.read(lambda each: each.execute(query).all())
        for uuid, host in lost:
            self._ask([uuid], [host])
        self.database.write(
            lambda each: each.execute(sa.delete(allocations).where(c.host.in_(self.racks[rack])))
        )
        self._arrive()
        return len(lost)

    @property
    def held(self) -> int:
        """The number of standbys."""
        query = sa.select(sa.func.count(standbys.c.compute_node_id))
        found: int = self.database.read(lambda each: each.scalar(query))
        return found

    def _ask(self, uuids: Sequence[str | None], ignore: Sequence[str] | None = None) -> None:
        """Ask for protected instances; refused ones raise NoValidHost."""
        spec = a_request(
            vcpus=1, root_gb=1, ignore_hosts=ignore, extra_specs={EXTRA_SPEC: PREFERRED}
        )
        name = f"req-{next(self._numbers)}"
        self._scheduler.select(SelectArguments(spec, [*uuids]), RequestContext(request_id=name))

    def _arrive(self) -> None:
        confirmed = {"state": CONFIRMED, "slot": allocations.c.compute_node_id}
        statement = sa.update(allocations).values(**confirmed)
        self.database.write(lambda each: each.execute(statement))


def figures(cloud: Cloud, plan: Plan) -> Iterator[Figure]:
    """Yield what the keeper takes until all have standbys again, or are named."""
    cloud.fill()
    rack = max(cloud.racks)
    cloud.lose(rack)
    yield _kept(DIED, cloud, plan, {})
    evacuated = cloud.evacuate(rack)
    yield _kept(EVACUATED, cloud, plan, {"evacuated": evacuated})


def _kept(what: str, cloud: Cloud, plan: Plan, facts: dict[str, int]) -> Figure:
    began = time.perf_counter()
    found = cloud.keeper.keep()
    seconds = time.perf_counter() - began
    facts |= {"made": found.made, "ended": found.ended, "not written": found.lost}
    facts |= {"held": cloud.held, "without": len(found.without)}
    case = {"hosts of a rack": plan.hosts, "protected instances of a rack": plan.instances}
    return Figure(what, OURS, "s", [seconds], case, facts)


def report(found: Sequence[Figure]) -> str:
    """Return the figures as lines."""
    return "\n".join(
        f"{each.what:42} {plain(each.median):>7} s   "
        + ", ".join(f"{name} {number:,}" for name, number in each.facts.items())
        for each in found
    )


def _measured(asked: argparse.Namespace) -> list[Figure]:
    plan = QUICK if asked.quick else WHOLE
    with (
        TemporaryDirectory(prefix="berthmaster-bench-") as directory,
        MariaDB(Path(directory), SERVER) as server,
    ):
        database = open_at(server.create_database("standbys"))
        migrations.sync(database)
        found = [*figures(Cloud(database, plan), plan)]
        database.close()
        return found


def main() -> None:
    program.run(program.parser(__doc__), _measured, report)


if __name__ == "__main__":
    main()
