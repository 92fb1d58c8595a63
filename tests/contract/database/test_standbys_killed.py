# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A scheduler that is killed anywhere leaves all promises true, and the next keeper no orphan."""

import multiprocessing
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from inventory.claims.claims import release
from inventory.engine import Database
from tests.contract.database import killed_protector
from tests.contract.database.killed_protector import CLAIMED, INSIDE, SIZE
from tests.contract.database.standby_cloud import HOSTS, StandbyCloud, domain_of
from tests.databases import a_uuid, serve
from tests.fixtures.daemons.process import PATIENCE

# A process begins for each statement.
pytestmark = [
    pytest.mark.matrix,
    pytest.mark.parametrize(
        "url",
        [
            pytest.param("mariadb", marks=pytest.mark.daemons),
            pytest.param("sqlite", marks=pytest.mark.release),
        ],
        indirect=True,
    ),
]

GUESTS = [a_uuid(f"guest {number}") for number in range(4)]
RELEASED = a_uuid("released")
Kill = Callable[..., int | None]


@pytest.fixture
def cloud(database: Database, tmp_path: Path) -> StandbyCloud:
    """Return a cloud with protected guests, of which one has a standby on a host that is down.

    Besides, there is the standby of an instance that has gone.
    """
    found = StandbyCloud(database, tmp_path)
    found.begin()
    for uuid in GUESTS:
        (host,) = found.ask([uuid], SIZE)
        found.arrive(uuid, host, SIZE)
    assert found.ask([RELEASED], SIZE)
    found.write(release, [RELEASED])
    found.force_down([found.held()[GUESTS[0]]])
    return found


@pytest.fixture
def kill(url: str) -> Kill:
    """Return what has a scheduler killed before a statement, and returns the status."""
    # Forked from a process that has imported everything.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([killed_protector.__name__])

    def run(what: str, which: int, *ignored: str) -> int | None:
        arguments = (url, what, which, *ignored)
        process = context.Process(target=killed_protector.run, args=arguments)
        process.start()
        process.join(PATIENCE)
        return process.exitcode

    return run


def promises_are_true(cloud: StandbyCloud) -> None:
    """Each host has room for what it holds, which covers every single failure domain."""
    assert cloud.usage() == cloud.expected_usage()
    nodes = cloud.nodes()
    for host, used in cloud.usage().items():
        node = nodes[host]
        total = node.vcpus, node.memory_mb, node.local_gb
        assert all(some <= most for some, most in zip(used, total, strict=True)), host


def each_statement(
    cloud: StandbyCloud, kill: Kill, what: str, *ignored: str, least: int = 10
) -> Iterator[int]:
    """Have something killed before one statement after the other; yield the status each time.

    There are more than least: the read of what is known, the locks, the writes and the commit.
    """
    for which in count(1):
        with cloud.copy():
            serve(cloud.database, *HOSTS)
            status = kill(what, which, *ignored)
            assert status in (-9, 0)
            promises_are_true(cloud)
            yield status
            promises_are_true(cloud)
        if status == 0:
            break
    assert which > least


def keep_places(cloud: StandbyCloud) -> None:
    """The next keeper leaves a standby for each place, and no other."""
    promises_are_true(cloud)
    assert cloud.keep(1).without == {}
    assert cloud.held().keys() == cloud.places().keys()


def test_a_killed_claim_has_its_standbys_or_nothing(cloud: StandbyCloud, kill: Kill) -> None:
    """The caller repeats the request at another scheduler."""
    for status in each_statement(cloud, kill, "claim"):
        held = cloud.held()
        assert (status, len({*CLAIMED} & held.keys())) in ((-9, 0), (-9, 3), (0, 3))
        assert cloud.ask(CLAIMED, SIZE, scheduler=1)
        promises_are_true(cloud)
        cloud.keep(1)
        assert {*cloud.held()} == {*CLAIMED, *GUESTS}


def test_a_keeper_that_is_killed_in_its_pass_leaves_the_rest_to_the_next(
    cloud: StandbyCloud, kill: Kill
) -> None:
    places = {row.instance_uuid: row.place_node_id for row in cloud.standbys()}
    names = {row.id: host for host, row in cloud.nodes().items()}
    down = cloud.held()[GUESTS[0]]
    for _ in each_statement(cloud, kill, "keep"):
        # Others are protected meanwhile.
        assert cloud.ask(CLAIMED, SIZE, scheduler=1)
        promises_are_true(cloud)
        assert cloud.keep(1).without == {}
        held = cloud.held()
        assert held.keys() == {*CLAIMED, *GUESTS}
        assert down not in held.values()
        for uuid in GUESTS:
            assert domain_of(held[uuid]) != domain_of(names[places[uuid]])


@pytest.fixture
def reserved(database: Database, tmp_path: Path) -> StandbyCloud:
    """Return a cloud with a place that has a standby."""
    found = StandbyCloud(database, tmp_path)
    found.begin()
    found.reserve_protected("old", SIZE, 1)
    return found


def test_a_killed_reservation_holds_all_places_and_standbys_or_nothing(
    reserved: StandbyCloud, kill: Kill
) -> None:
    for status in each_statement(reserved, kill, "reserve"):
        number = len(reserved.places())
        assert (status, number) in ((-9, 1), (-9, 3), (0, 3))
        assert len(reserved.standbys()) == number
        if number == 1:
            reserved.reserve_protected("new", SIZE, 2)
        keep_places(reserved)


def test_a_killed_request_has_its_place_or_leaves_it_free(
    reserved: StandbyCloud, kill: Kill
) -> None:
    held = reserved.held()
    for status in each_statement(reserved, kill, "take"):
        ((_, place),) = reserved.places().items()
        assert (status, place.taken_by) in ((-9, None), (-9, INSIDE), (0, INSIDE))
        assert reserved.held() == held
        # Nobody has the answer of who was killed: the claim ends, and the place is free again.
        reserved.write(release, [INSIDE])
        assert reserved.held() == held
        assert reserved.ask([INSIDE], SIZE, mode=None, scheduler=1) == [place.host]
        assert [each.taken_by for each in reserved.places().values()] == [INSIDE]
        keep_places(reserved)


def test_a_killed_evacuation_takes_place_and_standby_along_or_neither(
    reserved: StandbyCloud, kill: Kill
) -> None:
    (host,) = reserved.ask([INSIDE], SIZE, mode=None) or ()
    reserved.arrive(INSIDE, host, SIZE)
    ((uuid, standby),) = reserved.held().items()
    reserved.force_down([each for each in HOSTS if domain_of(each) == domain_of(host)])
    for status in each_statement(reserved, kill, "take", host):
        now, covers = reserved.places()[uuid].host, reserved.held()[uuid]
        assert (status, now) in ((-9, host), (-9, standby), (0, standby))
        assert (covers == standby) == (now == host)
        assert reserved.places()[uuid].taken_by == INSIDE
        if now == host:
            # Whoever evacuates it again gets the standby.
            again = reserved.ask([INSIDE], SIZE, mode=None, scheduler=1, ignore=[host])
            assert again == [standby]
            assert reserved.places()[uuid].host == standby
        keep_places(reserved)


def test_a_keeper_that_is_killed_has_moved_a_free_place_or_not(
    reserved: StandbyCloud, kill: Kill
) -> None:
    """Nobody is in it, and its failure domain has died."""
    ((uuid, standby),) = reserved.held().items()
    host = reserved.places()[uuid].host
    reserved.force_down([each for each in HOSTS if domain_of(each) == domain_of(host)])
    for status in each_statement(reserved, kill, "keep"):
        now, covers = reserved.places()[uuid].host, reserved.held()[uuid]
        assert (status, now) in ((-9, host), (-9, standby), (0, standby))
        assert (covers == standby) == (now == host)
        reserved.keep(1)
        assert reserved.places()[uuid].host == standby
        assert reserved.ask([INSIDE], SIZE, mode=None, scheduler=1) == [standby]
        keep_places(reserved)


def test_a_killed_end_of_a_reservation_leaves_the_standby_to_the_place_or_the_instance(
    reserved: StandbyCloud, kill: Kill
) -> None:
    """It is protected itself, and in the place."""
    (host,) = reserved.ask([INSIDE], SIZE, mode="required") or ()
    reserved.arrive(INSIDE, host, SIZE)
    ((uuid, standby),) = reserved.held().items()
    for status in each_statement(reserved, kill, "end", least=5):
        places = {*reserved.places()}
        assert (status, places) in ((-9, {uuid}), (-9, set()), (0, set()))
        assert reserved.held() == {(uuid if places else INSIDE): standby}
        reserved.keep(1)
        assert reserved.held() == {(uuid if places else INSIDE): standby}
