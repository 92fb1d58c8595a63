# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A scheduler that is killed anywhere leaves all promises true, and the next keeper no orphan."""

import multiprocessing
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from inventory.claims.claims import release
from inventory.engine import Database
from tests.contract.database import killed_protector
from tests.contract.database.killed_protector import CLAIMED, SIZE
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
Kill = Callable[[str, int], int | None]


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

    def run(what: str, which: int) -> int | None:
        process = context.Process(target=killed_protector.run, args=(url, what, which))
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


def test_a_killed_claim_has_its_standbys_or_nothing(cloud: StandbyCloud, kill: Kill) -> None:
    """The caller repeats the request at another scheduler."""
    for which in count(1):
        with cloud.copy():
            serve(cloud.database, *HOSTS)
            status = kill("claim", which)
            held = cloud.held()
            assert (status, len({*CLAIMED} & held.keys())) in ((-9, 0), (-9, 3), (0, 3))
            promises_are_true(cloud)
            assert cloud.ask(CLAIMED, SIZE, scheduler=1)
            promises_are_true(cloud)
            cloud.keep(1)
            assert {*cloud.held()} == {*CLAIMED, *GUESTS}
        if status == 0:
            break
    # The read of what is known, the locks, the writes and the commit at least.
    assert which > 10


def test_a_keeper_that_is_killed_in_its_pass_leaves_the_rest_to_the_next(
    cloud: StandbyCloud, kill: Kill
) -> None:
    places = {row.instance_uuid: row.place_node_id for row in cloud.standbys()}
    names = {row.id: host for host, row in cloud.nodes().items()}
    down = cloud.held()[GUESTS[0]]
    for which in count(1):
        with cloud.copy():
            serve(cloud.database, *HOSTS)
            status = kill("keep", which)
            assert status in (-9, 0)
            promises_are_true(cloud)
            # Others are protected meanwhile.
            assert cloud.ask(CLAIMED, SIZE, scheduler=1)
            promises_are_true(cloud)
            assert cloud.keep(1).without == {}
            promises_are_true(cloud)
            held = cloud.held()
            assert held.keys() == {*CLAIMED, *GUESTS}
            assert down not in held.values()
            for uuid in GUESTS:
                assert domain_of(held[uuid]) != domain_of(names[places[uuid]])
        if status == 0:
            break
    assert which > 10
