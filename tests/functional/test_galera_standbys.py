# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Protected instances that two schedulers claim at different members of a Galera cluster.

The storm "galera-standbys" of `make chaos` is the long form.
"""

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest
import sqlalchemy as sa

from inventory import compute_nodes, tables
from inventory.claims import claims, standbys
from inventory.engine import Database
from inventory.objects.standby import EXTRA_SPEC, held
from inventory.operations import aggregate_operations
from scheduler.select_destinations.destinations import Destinations
from tests.databases import a_node, a_uuid, save, serve
from tests.fixtures.daemons.galera import Galera, Member
from tests.fixtures.daemons.process import wait_until
from tests.functional import test_galera
from tests.functional.test_galera import ZONES, a_scheduler, ask, meanwhile

# Another database. tests/contract/database/test_write_sets.py holds its rule in the gate.
pytestmark = pytest.mark.matrix

name, databases, late = test_galera.name, test_galera.databases, test_galera.late
# By racks. Each host has room for four instances or standbys.
HOSTS = ("a1", "a2", "b1", "b2", "c1", "c2")
ROOM = 4
UNPROTECTED = {"vcpus": 4, "memory_mb": 4096, "extra_specs": {}}
SIZE = UNPROTECTED | {"extra_specs": {EXTRA_SPEC: "required"}}
U = [a_uuid(f"protected {number}") for number in range(ROOM * len(HOSTS))]


@pytest.fixture
def racked(databases: list[Database]) -> Database:
    """Three racks of two hosts."""
    here = databases[0]
    save(here, *(a_node(host, initial_cpu_allocation_ratio=1.0) for host in HOSTS))
    serve(here, *HOSTS)
    for rack in sorted({host[0] for host in HOSTS}):
        hosts = [host for host in HOSTS if host[0] == rack]
        named = rack, {"failure_domain": rack}
        here.write(lambda c, named=named: aggregate_operations.create(c, *named))
        here.write(
            lambda c, named=named, hosts=hosts: aggregate_operations.add_hosts(
                c, named[0], hosts, ZONES
            )
        )
    return here


@pytest.fixture
def schedulers(galera: Galera, name: str, racked: Database) -> list[Destinations]:
    """Return two schedulers, at the first member and at the one that may be late."""
    found = [a_scheduler(each, name) for each in galera.members[:2]]
    for each in found:
        with each.host_cache.current(fresh=True):
            pass
    return found


def conflicts(database: Database) -> int:
    """Return how many transactions of a member were certified in vain, or ended for others."""
    names = "wsrep_local_cert_failures", "wsrep_local_bf_aborts"
    query = sa.text("SHOW GLOBAL STATUS LIKE 'wsrep_local_%'")
    status = dict(database.read(lambda c: [tuple(row) for row in c.execute(query)]))
    return sum(int(status[each]) for each in names)


def check(database: Database) -> None:
    """Each of U has a standby in another domain, and each node has room for the loss of any."""
    sums = database.read(standbys.read_sums)
    nodes = {row.id: row for row in database.read(compute_nodes.all_live)}
    claimed = database.read(lambda c: c.execute(sa.select(tables.allocations)).all())
    rows = database.read(lambda c: c.execute(sa.select(tables.standbys)).all())
    covered = {(row.instance_uuid, row.place_node_id): row.compute_node_id for row in rows}
    places = {(row.instance_uuid, row.compute_node_id) for row in claimed}
    assert covered.keys() == {(uuid, node_id) for uuid, node_id in places if uuid in U}
    assert all(
        node is not None and nodes[node].host[0] != nodes[place].host[0]
        for (_, place), node in covered.items()
    )
    used: defaultdict[int, int] = defaultdict(int)
    for row in claimed:
        used[row.compute_node_id] += row.vcpus
    for node_id, node in nodes.items():
        vcpus, *_ = held(sums.get(node_id, {}))
        assert node.vcpus_used == used[node_id] + vcpus <= 4 * ROOM, node.host


def test_a_protected_instance_that_is_asked_for_at_two_members_has_one_standby(
    galera: Galera, late: Member, racked: Database, schedulers: list[Destinations]
) -> None:
    first, second = schedulers
    hosts = []
    there = meanwhile(
        galera,
        late,
        lambda: hosts.append(ask(first, U[0], **SIZE)),
        lambda: ask(second, U[0], **SIZE),
    )
    assert hosts == [there] != [None]
    check(racked)


def test_a_late_member_gives_no_room_away_that_is_held_for_standbys(
    galera: Galera, late: Member, racked: Database, schedulers: list[Destinations]
) -> None:
    first, second = schedulers

    def fill() -> None:
        assert ask(first, U[0], **SIZE)
        others = (a_uuid(f"other {number}") for number in count())
        assert any(ask(first, uuid, **UNPROTECTED) is None for uuid in others)

    assert meanwhile(galera, late, fill, lambda: ask(second, U[-1], **UNPROTECTED)) is None
    check(racked)


def test_claims_that_conflict_when_they_are_certified_leave_no_domain_uncovered(
    databases: list[Database], racked: Database, schedulers: list[Destinations]
) -> None:
    before = sum(map(conflicts, databases))

    def asked(number: int) -> str | None:
        return ask(schedulers[number % 2], U[number], **SIZE)

    def conflicting() -> bool:
        with ThreadPoolExecutor(6) as pool:
            found = [*pool.map(asked, range(len(U)))]
        check(racked)
        # Two racks hold no more, whichever of the three is lost.
        assert 2 * ROOM < sum(host is not None for host in found) <= 4 * ROOM
        racked.write(lambda c: claims.release(c, U))
        rows = racked.read(lambda c: c.scalars(sa.select(tables.standbys.c.id)).all())
        racked.write(lambda c: standbys.settle(c, (), rows))
        return sum(map(conflicts, databases)) > before

    assert wait_until(conflicting)
