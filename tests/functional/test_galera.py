# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Schedulers and operators at different members of a Galera cluster, one of which is late.

Operators are at the first member. The schedulers are whole but for their processes: what they
answer is what a caller gets. `make chaos` is the long form.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa

from inventory import aggregates, migrations
from inventory.claims import group_locks
from inventory.database_errors import DatabaseUnavailable
from inventory.engine import Database
from inventory.errors import NotFound, OperationRefused
from inventory.operations import aggregate_operations, server_group_operations, service_operations
from inventory.operations.aggregate_operations import Change, ZoneRules
from inventory.tables import allocations
from scheduler.host_cache.refresh_queries import read_nodes
from scheduler.select_destinations.destinations import Destinations
from scheduler.service import build_destinations
from scheduler.wire.arguments import SelectArguments
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import NoValidHost
from tests.builders import a_group, a_request
from tests.databases import a_conf, a_node, a_uuid, empty, open_at, save, serve
from tests.fixtures.daemons.galera import Galera, Member
from tests.fixtures.daemons.process import PATIENCE, wait_until

# Another database. tests/contract/database/test_write_sets.py holds its rule in the gate.
pytestmark = pytest.mark.matrix

ZONES = ZoneRules("nova")
FIRST, SECOND = a_uuid("first"), a_uuid("second")
NODES = "SELECT id FROM compute_nodes"
# Of orders of each of the operators.
ROUNDS = 20
# For how long a member is late at the most, in seconds.
LATE = 3.0
Act = Callable[[], Any]
Order = Callable[[sa.Connection], Any]


@pytest.fixture(scope="module")
def name(galera: Galera) -> str:
    """Return the name of a database that has all tables."""
    name = f"galera_{uuid4().hex}"
    database = open_at(galera.members[0].create_database(name))
    migrations.sync(database)
    database.close()
    return name


@pytest.fixture
def databases(galera: Galera, name: str) -> Iterator[list[Database]]:
    """Yield an empty database as each member has it."""
    with ExitStack() as opened:
        found = [open_at(each.url(name)) for each in galera.members]
        for each in found:
            opened.callback(each.close)
        yield found
        empty(found[0])


@pytest.fixture
def here(databases: list[Database]) -> Database:
    """The database where operators are; it has a host in the zone z1."""
    here = databases[0]
    save(here, a_node("h1"))
    serve(here, "h1")
    here.write(lambda c: aggregate_operations.create(c, "a", {"availability_zone": "z1"}))
    here.write(lambda c: aggregate_operations.add_hosts(c, "a", ["h1"], ZONES))
    return here


@pytest.fixture
def late(galera: Galera) -> Member:
    """The member that is late."""
    return galera.members[1]


def a_scheduler(member: Member, name: str) -> Destinations:
    conf = a_conf(connection=member.url(name))
    return build_destinations(conf, open_at(member.url(name)))


@pytest.fixture
def there(late: Member, name: str, here: Database) -> Destinations:
    """A scheduler at the late member, which has had time to read all."""
    found = a_scheduler(late, name)
    with found.host_cache.current(fresh=True):
        return found


def ask(scheduler: Destinations, uuid: str = FIRST, **changes: Any) -> str | None:
    """Return the host that an instance gets, if any."""
    asked = SelectArguments(a_request(**changes), [uuid])
    try:
        ((chosen, *_),) = scheduler.select(asked, RequestContext(request_id=f"req-{uuid}"))
    except NoValidHost:
        return None
    return chosen.service_host


def meanwhile(
    galera: Galera, late: Member, done: Callable[[], Any], then: Callable[[], Any]
) -> Any:
    """Let a member be late while something is done; return what comes of what follows there.

    It is late until that has ended or cannot go on.
    """
    with ThreadPoolExecutor(1) as pool:
        with galera.late(late):
            done()
            following = pool.submit(then)
            wait_until(lambda: following.done() or late.keeps_waiting(), LATE)
        return following.result(PATIENCE)


def claimed(database: Database) -> dict[str, str]:
    query = sa.select(allocations.c.instance_uuid, allocations.c.host)
    return dict(database.read(lambda c: [tuple(row) for row in c.execute(query)]))


ORDERS = {
    "left the zone": lambda c: aggregate_operations.remove_hosts(c, "a", ["h1"], ZONES),
    "another zone": lambda c: aggregate_operations.change(
        c, "a", Change(properties={"availability_zone": "z2"}), ZONES
    ),
    "no zone": lambda c: aggregate_operations.change(
        c, "a", Change(without=["availability_zone"]), ZONES
    ),
    "disabled": lambda c: service_operations.disable(c, ["h1"], "broken"),
    "maintenance": lambda c: service_operations.begin_maintenance(c, ["h1"], "broken"),
    "forced down": lambda c: service_operations.force_down(c, ["h1"]),
    # Heartbeats of the past do not hinder it.
    "deleted": lambda c: service_operations.delete(c, ["h1"], -1.0),
}
orders = pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)


@orders
def test_what_was_ordered_holds_for_a_request_that_is_sent_afterwards(
    galera: Galera, late: Member, here: Database, there: Destinations, order: Order
) -> None:
    asked = meanwhile(
        galera, late, lambda: here.write(order), lambda: ask(there, availability_zone="z1")
    )
    assert asked is None
    assert claimed(here) == {}


class Hesitating:
    """A driver that lets others act between its first decision and the claim."""

    def __init__(self, driver: Any, act: Act) -> None:
        self._driver, self._act = driver, act

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    def decide(self, *arguments: Any) -> Any:
        decision = self._driver.decide(*arguments)
        act, self._act = self._act, lambda: None
        act()
        return decision


@orders
def test_a_claim_does_not_slip_past_an_order_that_it_could_not_see(
    galera: Galera, late: Member, here: Database, there: Destinations, order: Order
) -> None:
    with ExitStack() as lateness, ThreadPoolExecutor(1) as pool:

        def act() -> None:
            lateness.enter_context(galera.late(late))
            here.write(order)

        there.change(driver=Hesitating(there.driver, act))
        asked = pool.submit(ask, there, availability_zone="z1")
        wait_until(lambda: asked.done() or late.keeps_waiting(), LATE)
        lateness.close()
        assert asked.result(PATIENCE) is None
    assert claimed(here) == {}


def test_an_order_does_not_slip_past_a_claim_that_it_could_not_see(
    galera: Galera, late: Member, name: str, databases: list[Database], here: Database
) -> None:
    def ordered() -> Any:
        try:
            return databases[1].write(ORDERS["left the zone"])
        except OperationRefused as error:
            return error

    scheduler = a_scheduler(galera.members[0], name)
    refused = meanwhile(galera, late, lambda: ask(scheduler, availability_zone="z1"), ordered)
    assert claimed(here) == {FIRST: "h1"}
    assert isinstance(refused, OperationRefused)


def test_a_host_does_not_join_an_aggregate_while_its_service_is_deleted(
    galera: Galera, late: Member, databases: list[Database], here: Database
) -> None:
    save(here, a_node("h2"))
    serve(here, "h2")

    def joined() -> Any:
        try:
            return databases[1].write(
                lambda c: aggregate_operations.add_hosts(c, "a", ["h2"], ZONES)
            )
        except OperationRefused as error:
            return error

    refused = meanwhile(
        galera,
        late,
        lambda: here.write(lambda c: service_operations.delete(c, ["h2"], -1.0)),
        joined,
    )
    assert isinstance(refused, NotFound)
    assert [each.hosts for each in here.read(aggregates.everything)] == [["h1"]]


def test_members_of_a_group_that_are_claimed_for_at_two_members_stay_together(
    galera: Galera, late: Member, name: str, here: Database, there: Destinations
) -> None:
    save(here, a_node("h2"))
    serve(here, "h2")
    made = here.write(lambda c: server_group_operations.create(c, "g", "affinity"))
    group_locks.ensure(here, [made["id"]])
    with there.host_cache.current(fresh=True):
        group = a_group("affinity", uuid=made["id"], members=[FIRST, SECOND])
    scheduler = a_scheduler(galera.members[0], name)
    hosts = meanwhile(
        galera,
        late,
        lambda: ask(scheduler, FIRST, instance_group=group, ignore_hosts=["h2"]),
        lambda: ask(there, SECOND, instance_group=group, ignore_hosts=["h1"]),
    )
    assert hosts is None
    assert claimed(here) == {FIRST: "h1"}


def test_a_repeated_request_gets_its_answer_from_a_late_member(
    galera: Galera, late: Member, name: str, here: Database, there: Destinations
) -> None:
    scheduler = a_scheduler(galera.members[0], name)
    # There is room for one of these.
    size = {"vcpus": 16, "memory_mb": 60000}

    def asked_first() -> None:
        assert ask(scheduler, **size) == "h1"
        ids = [row.id for row in here.read(lambda c: c.execute(sa.text(NODES)).all())]
        pushed = here.read(lambda c: read_nodes(c, ids))
        there.host_cache.apply_push(pushed.nodes, pushed.instances, pushed.claims)

    assert meanwhile(galera, late, asked_first, lambda: ask(there, **size)) == "h1"


def test_a_member_without_a_majority_is_a_database_that_is_not_available(
    galera: Galera, here: Database, name: str
) -> None:
    first, *others = galera.members
    scheduler = a_scheduler(first, name)
    assert ask(scheduler) == "h1"
    for each in others:
        each.pause()
    try:
        # What was being committed when the others left, and what comes after that.
        for uuid in (SECOND, a_uuid("third")):
            with pytest.raises(DatabaseUnavailable):
                ask(scheduler, uuid)
    finally:
        galera.heal()
    assert ask(scheduler, SECOND) == "h1"


def test_a_killed_member_is_back_with_all_that_it_missed(
    galera: Galera, late: Member, here: Database, name: str, there: Destinations
) -> None:
    late.kill()
    with pytest.raises(DatabaseUnavailable):
        ask(there)
    here.write(ORDERS["left the zone"])
    late.start()
    assert ask(there, availability_zone="z1") is None
    assert ask(there) == "h1"


def test_no_order_of_many_operators_is_lost(databases: list[Database], here: Database) -> None:
    hosts = ("h2", "h3", "h4")
    save(here, *map(a_node, hosts))
    serve(here, *hosts)

    def operate(database: Database, host: str) -> None:
        for _ in range(ROUNDS):
            database.write(lambda c: aggregate_operations.add_hosts(c, "a", [host], ZONES))
            database.write(lambda c: aggregate_operations.remove_hosts(c, "a", [host], ZONES))

    with ThreadPoolExecutor(len(databases)) as pool:
        list(pool.map(operate, databases, hosts))


def test_syncs_at_two_members_exclude_each_other(galera: Galera) -> None:
    first, second, _ = galera.members
    name = f"galera_{uuid4().hex}"
    with ExitStack() as opened:
        found = [open_at(url) for url in (first.create_database(name), second.url(name))]
        for each in found:
            opened.callback(each.close)
        with ThreadPoolExecutor(2) as pool:
            results = [*pool.map(migrations.sync, found)]
    head = migrations.HEAD
    assert sorted(results, key=str) == [(head, head), (None, head)]
