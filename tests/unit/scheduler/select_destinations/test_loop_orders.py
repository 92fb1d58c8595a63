# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Any requests at the same time end as they would in some order, one after the other."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import permutations
from threading import Event
from typing import NamedTuple

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inventory import compute_nodes
from inventory.engine import Database
from scheduler.cached_thread_pool import CachedThreadPool
from scheduler.claims.claim_request import ClaimSettings
from scheduler.claims.claimer import Claimer
from scheduler.decision.pipeline import Plan
from scheduler.drivers.filter_scheduler import FilterScheduler
from scheduler.filters.ram import RamFilter
from scheduler.filters.server_group_anti_affinity import ServerGroupAntiAffinityFilter
from scheduler.host_cache.cache import HostCache
from scheduler.select_destinations.destinations import Destinations
from scheduler.select_destinations.loop import SchedulingLoop
from scheduler.weighers.ram import RAMWeigher
from scheduler.wire.arguments import SelectArguments
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import NoValidHost
from tests.builders import a_group, a_request
from tests.databases import a_node, a_uuid, execute, save, serve
from tests.fixtures.daemons.process import PATIENCE, wait_until

PLAN = Plan((RamFilter(), ServerGroupAntiAffinityFilter()), [RAMWeigher()])
GB = 1024
DRAWN = settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])


class Asked(NamedTuple):
    """A request for instances of so many GB, members of one anti-affinity group or of none."""

    number: int
    gigabytes: int
    instances: int
    is_grouped: bool

    @property
    def uuids(self) -> list[str]:
        return [a_uuid(f"{self.number} {each}") for each in range(self.instances)]


class Outcome(NamedTuple):
    """Which requests were served, and how much memory is left on the hosts, in any order."""

    served: frozenset[int]
    free: Sequence[int]


requests = st.lists(
    st.tuples(st.integers(1, 3), st.integers(1, 2), st.booleans()), min_size=2, max_size=3
).map(lambda drawn: [Asked(number, *each) for number, each in enumerate(drawn)])
# The GB that are free on each host.
fleets = st.lists(st.integers(1, 5), min_size=1, max_size=3)


class HeldDatabase(Database):
    """A database whose transactions that write begin when it is told so."""

    def __init__(self, engine):
        super().__init__(engine)
        self.go = Event()
        self.go.set()

    def write(self, work):
        assert self.go.wait(PATIENCE)
        return super().write(work)


def a_cloud(database: Database, fleet: Sequence[int]) -> None:
    """Write a fleet in the place of what there was."""
    for table in ("allocations", "claimed_groups", "compute_nodes", "services"):
        execute(database, f"DELETE FROM {table}")  # names from above
    hosts = [f"h{number}" for number in range(len(fleet))]
    save(
        database,
        *(
            a_node(host, memory_mb=5 * GB, memory_mb_used=(5 - free) * GB, free_ram_mb=free * GB)
            | {"initial_ram_allocation_ratio": 1.0}
            for host, free in zip(hosts, fleet, strict=True)
        ),
    )
    serve(database, *hosts)


class Counting(SchedulingLoop):
    """A loop that counts the requests that have joined a round."""

    joined = 0

    def join(self, pending):
        super().join(pending)
        self.joined += 1


def a_scheduler(database: Database, max_age: float = 0.0) -> Destinations:
    cache = HostCache(database, max_age=max_age)
    claimer = Claimer(database, ClaimSettings(), cache.apply_changes)
    scheduler = Destinations(database, cache, FilterScheduler(PLAN), claimer=claimer)
    scheduler.loop = Counting(database, cache)
    return scheduler


def is_served(scheduler: Destinations, asked: Asked) -> bool:
    spec = a_request(
        memory_mb=asked.gigabytes * GB, instance_group=a_group() if asked.is_grouped else None
    )
    try:
        scheduler.select(
            SelectArguments(spec, asked.uuids, False, False),
            RequestContext(request_id=f"req-{asked.number}"),
        )
    except NoValidHost:
        return False
    return True


def outcome(database: Database, served: dict[Asked, bool]) -> Outcome:
    free = [node.free_ram_mb for node in database.read(compute_nodes.all_live)]
    assert min(free) >= 0
    return Outcome(frozenset(each.number for each in served if served[each]), sorted(free))


def at_the_same_time(
    database: HeldDatabase, schedulers: Sequence[Destinations], all_asked: Sequence[Asked]
) -> dict[Asked, bool]:
    """Ask while one transaction is under way, so that what comes meanwhile is one round."""
    threads = CachedThreadPool()
    database.go.clear()
    answers = {
        asked: threads.run(partial(is_served, schedulers[asked.number % len(schedulers)], asked))
        for asked in all_asked
    }
    assert wait_until(lambda: sum(each.loop.joined for each in schedulers) >= len(all_asked))
    database.go.set()
    return {asked: answer.result(PATIENCE) for asked, answer in answers.items()}


def one_by_one(
    database: Database, fleet: Sequence[int], all_asked: Sequence[Asked]
) -> Iterator[Outcome]:
    """Yield the outcomes of all orders."""
    for order in permutations(all_asked):
        a_cloud(database, fleet)
        scheduler = a_scheduler(database)
        yield outcome(database, {asked: is_served(scheduler, asked) for asked in order})


@pytest.fixture
def held(database):
    return HeldDatabase(database.engine)


@DRAWN
@given(fleets, requests)
def test_a_round_ends_as_some_order_of_its_requests(held, fleet, all_asked):
    a_cloud(held, fleet)
    found = outcome(held, at_the_same_time(held, [a_scheduler(held)], all_asked))
    assert any(found == each for each in one_by_one(held, fleet, all_asked))


@DRAWN
@given(fleets, requests)
def test_who_is_refused_beside_other_schedulers_would_be_refused_after_them(held, fleet, all_asked):
    """Neither scheduler knows of the claims of the other unless it reads them."""
    a_cloud(held, fleet)
    schedulers = [a_scheduler(held, max_age=1e9) for _ in range(2)]
    served = at_the_same_time(held, schedulers, all_asked)
    outcome(held, served)
    alone = a_scheduler(held)
    assert [each for each in all_asked if not served[each] and is_served(alone, each)] == []


def test_the_members_of_all_groups_of_a_round_are_read_together(held):
    """Before the round decides, and when it has locked the groups."""
    a_cloud(held, [1] * 9)
    scheduler, read = a_scheduler(held), []
    assert is_served(scheduler, Asked(0, 1, 1, True))

    def note(_connection, _cursor, statement, *_):
        if "allocations.group_uuid IN" in statement:
            read.append(statement)

    sa.event.listen(held.engine, "before_cursor_execute", note)
    all_asked = [Asked(number, 1, 1, True) for number in range(1, 9)]
    assert all(at_the_same_time(held, [scheduler], all_asked).values())
    # One round with the first of them, and one or two with the others.
    assert len(read) <= 6
