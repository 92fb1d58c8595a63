# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.operators.config_shadow.follower, on the decisions of a real scheduler."""

import pytest

from inventory.claims import claims
from scheduler.host_cache.cache import HostCache
from scheduler.operators.config_shadow.follower import Follower
from tests.databases import a_conf, a_node, a_uuid, execute, save, serve
from tests.fixtures.keeping import KeepingScheduler, uuids_of

HOSTS = ("h1", "h2", "h3")
SMALL = {"vcpus": 1, "memory_mb": 2048, "root_gb": 0}


def a_scheduler(database, **options):
    conf = a_conf()
    for name, value in options.items():
        conf.set_override(name, value, group="filter_scheduler")
    return KeepingScheduler(database, conf)


@pytest.fixture
def cloud(database):
    """Three empty hosts."""
    empty = {"memory_mb_used": 0, "free_ram_mb": 65536, "ram_allocation_ratio": 1.0}
    save(database, *(a_node(host, **empty) for host in HOSTS))
    serve(database, *HOSTS)
    return database


@pytest.fixture
def spread(cloud):
    """The scheduler that answers; what it has decided is saved when its block ends."""
    return a_scheduler(cloud)


@pytest.fixture
def follower(cloud):
    """A follower that stacks."""
    driver = a_scheduler(
        cloud, ram_weight_multiplier=-1.0, io_ops_weight_multiplier=0.0
    ).destinations.driver
    return Follower(cloud, HostCache(cloud), driver.decide)


def found(follower):
    follower.step()
    return follower.document()


def numbers(document):
    names = ("requests", "same", "moves", "unreadable", "refused", "refused_by_shadow")
    return tuple(document[name] for name in names)


def test_what_is_decided_otherwise_is_counted_and_both_fleets_told_apart(spread, follower):
    assert numbers(found(follower)) == (0, 0, 0, 0, 0, 0)
    with spread:
        hosts = [spread.ask(f"r{number}", **SMALL)[0] for number in range(3)]
        assert sorted(hosts) == [*HOSTS]
        assert spread.ask("huge", memory_mb=65_000, vcpus=1, root_gb=0) == []
    document = found(follower)
    assert document["requests"] == 4
    assert (document["refused"], document["refused_by_shadow"]) == (1, 0)
    assert (document["real"]["empty_hosts"], document["shadow"]["empty_hosts"]) == (0, 2)
    assert document["real"]["instances"] == document["shadow"]["instances"] == 3
    stacked = {tuple(each["hosts_of_shadow"]) for each in document["different"][:-1]}
    assert len(stacked) == 1
    assert document["different"][-1]["request_id"] == "req-huge"
    assert document["same"] + len(document["different"]) == 4
    # Nothing is decided twice.
    assert numbers(found(follower)) == numbers(document)


def test_with_the_same_settings_the_same_is_decided(spread, cloud):
    same = Follower(cloud, HostCache(cloud), spread.destinations.driver.decide)
    with spread:
        for number in range(20):
            spread.ask(f"r{number}", 1 + number % 3, **SMALL)
            if number == 9:
                spread.ask("huge", memory_mb=66_000, vcpus=1, root_gb=0)
    document = found(same)
    assert (document["requests"], document["same"], document["different"]) == (21, 21, [])
    assert document["real"] == document["shadow"]


def test_what_was_decided_before_it_began_is_none_of_its_business(spread, cloud):
    with spread:
        spread.ask("before", **SMALL)
    late = Follower(cloud, HostCache(cloud), spread.destinations.driver.decide)
    assert found(late)["requests"] == 0


def test_instances_that_leave_for_real_leave_its_fleet(spread, follower, cloud):
    with spread:
        spread.ask("gone", **SMALL)
        spread.ask("stays", **SMALL)
    assert found(follower)["shadow"]["instances"] == 2
    cloud.write(lambda connection: claims.release(connection, uuids_of("gone")))
    document = found(follower)
    assert document["real"]["instances"] == document["shadow"]["instances"] == 1


def test_requests_about_instances_that_were_there_are_left_out(spread, follower, cloud):
    with spread:
        spread.ask("moved", **SMALL)
    assert found(follower)["requests"] == 1
    # The same instance is placed again, long after it has come.
    with a_scheduler(cloud) as again:
        again.ask("moved", request_id="req-again", **SMALL)
    later = "UPDATE decisions SET decided_at = datetime(decided_at, '+5 minutes')"
    execute(cloud, f"{later} WHERE request_id = 'req-again'")
    document = found(follower)
    assert (document["requests"], document["moves"]) == (1, 1)


def test_decisions_that_cannot_be_read_are_counted(spread, follower, cloud):
    with spread:
        spread.ask("one", **SMALL)
    execute(cloud, "UPDATE decisions SET document = :odd", odd=b"odd")
    assert numbers(found(follower))[:4] == (0, 0, 0, 1)
    assert a_uuid("one 0") not in found(follower)
