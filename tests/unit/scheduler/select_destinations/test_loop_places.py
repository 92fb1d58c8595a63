# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of select_destinations with reserved places: they are for the requests of their project."""

from contextlib import suppress
from threading import Thread

import pytest
import sqlalchemy as sa

from inventory.claims import claims
from inventory.claims.types import Claim, ClaimRequest
from inventory.operations import reservation_operations
from inventory.operations.reservation_operations import NewReservation
from inventory.tables import allocations
from scheduler.wire.arguments import SelectArguments
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import NoValidHost
from tests.builders import a_request
from tests.databases import a_node, a_uuid, save, serve
from tests.unit.scheduler.select_destinations.test_loop_requests import U, a_scheduler, ask, used

FREE = {"h1": 8192, "h2": 6144, "h3": 4096}
SIZE = (2, 2048, 20480)


@pytest.fixture
def cloud(database):
    """Return a database with three hosts that have room for four, three and two instances."""
    ordinary = {"memory_mb": 8192, "initial_ram_allocation_ratio": 1.0}
    nodes = [
        a_node(host, memory_mb_used=8192 - mb, free_ram_mb=mb, **ordinary)
        for host, mb in FREE.items()
    ]
    save(database, *nodes)
    serve(database, *FREE)
    return database


def reserve(database, *hosts, name="r", project="project1", size=SIZE):
    numbers = {host: number + 1 for number, host in enumerate(FREE)}
    places = [
        Claim(a_uuid(f"{name} {at}"), numbers[host], host, host, *size)
        for at, host in enumerate(hosts)
    ]
    new, request = NewReservation(name, project, size), ClaimRequest(None, "", places, 0)
    database.write(lambda c: reservation_operations.create(c, new, request))


def fill(database, project="other"):
    """Fill what is free with instances of another project."""
    scheduler, answers = a_scheduler(database), []
    for number in range(20):
        uuid = a_uuid(f"{project} {number}")
        with suppress(NoValidHost):
            answers += ask(scheduler, uuid, request_id=uuid, project_id=project)
    return sorted(answers)


def takers(database):
    query = sa.select(allocations.c.host, allocations.c.taken_by)
    query = query.where(allocations.c.reservation_uuid.is_not(None))
    return sorted(database.read(lambda c: c.execute(query).all()), key=str)


def test_a_request_takes_the_places_of_its_project_first(cloud):
    reserve(cloud, "h3", "h2")
    before = used(cloud)
    scheduler = a_scheduler(cloud)
    # More is free on h1, as the weigher sees it.
    assert ask(scheduler, U[0]) == ["h2"]
    assert ask(scheduler, U[1], request_id="req-2") == ["h3"]
    assert used(cloud) == before
    assert takers(cloud) == [("h2", U[0]), ("h3", U[1])]
    assert ask(scheduler, U[2], request_id="req-3") == ["h1"]


def test_others_never_get_into_places_and_their_project_always_does(cloud):
    reserve(cloud, "h3", "h3", "h1")
    assert fill(cloud) == ["h1"] * 3 + ["h2"] * 3
    scheduler = a_scheduler(cloud)
    assert sorted(ask(scheduler, *U[:3])) == ["h1", "h3", "h3"]
    with pytest.raises(NoValidHost):
        ask(scheduler, U[3], request_id="req-2")
    # What is released can be had again, by the project alone.
    cloud.write(lambda c: claims.release(c, [U[0]]))
    with pytest.raises(NoValidHost):
        ask(scheduler, U[4], request_id="req-3", project_id="other")
    assert ask(scheduler, U[5], request_id="req-4") in (["h1"], ["h3"])
    assert used(cloud) == [8192] * 3


def test_a_scheduler_finds_a_reservation_that_is_newer_than_its_cache(cloud):
    scheduler = a_scheduler(cloud)
    ask(scheduler, U[0], project_id="other")
    reserve(cloud, "h3", "h3")
    fill(cloud)
    assert ask(scheduler, U[1], request_id="req-2") == ["h3"]


def test_a_request_for_more_than_there_are_places_gets_other_hosts_too(cloud):
    reserve(cloud, "h3")
    assert ask(a_scheduler(cloud), *U[:3], alternates=True) == ["h3", "h1", "h1"]
    assert [by for _, by in takers(cloud)] == [U[0]]


def test_large_places_are_taken_last(cloud):
    reserve(cloud, "h1", size=(4, 4096, 20480), name="large")
    reserve(cloud, "h3", name="small")
    scheduler = a_scheduler(cloud)
    assert ask(scheduler, U[0]) == ["h3"]
    assert ask(scheduler, U[1], request_id="req-2") == ["h1"]
    assert used(cloud) == [4096, 2048, 6144]


@pytest.mark.parametrize(
    "changes",
    [
        {"vcpus": 3},
        {"memory_mb": 2049},
        {"root_gb": 21},
        {"project_id": "other"},
        {"project_id": None},
    ],
    ids=str,
)
def test_what_does_not_fit_into_a_place_or_is_of_another_project_takes_none(cloud, changes):
    reserve(cloud, "h3")
    assert ask(a_scheduler(cloud), U[0], **changes) == ["h1"]
    assert takers(cloud) == [("h3", None)]


def test_a_smaller_request_leaves_the_rest_of_its_place_to_nobody(cloud):
    reserve(cloud, "h3", "h3")
    fill(cloud)
    assert ask(a_scheduler(cloud), *U[:2], memory_mb=512, vcpus=1) == ["h3", "h3"]
    with pytest.raises(NoValidHost):
        ask(a_scheduler(cloud), U[2], memory_mb=512, vcpus=1, request_id="req-2")
    assert used(cloud) == [8192] * 3


def test_requests_at_one_time_take_different_places(cloud):
    reserve(cloud, *["h1"] * 4, *["h2"] * 3, *["h3"] * 2)
    schedulers, answers = [a_scheduler(cloud) for _ in range(3)], []

    def worker(number):
        uuid = a_uuid(f"mine {number}")
        answers.extend(ask(schedulers[number % 3], uuid, request_id=uuid))

    threads = [Thread(target=worker, args=(number,)) for number in range(9)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(answers) == ["h1"] * 4 + ["h2"] * 3 + ["h3"] * 2
    assert used(cloud) == [8192] * 3
    assert len({by for _, by in takers(cloud)}) == 9


def test_a_repeated_request_keeps_its_place(cloud):
    reserve(cloud, "h3", "h2")
    assert ask(a_scheduler(cloud), U[0]) == ask(a_scheduler(cloud), U[0]) == ["h2"]
    assert takers(cloud) == [("h2", U[0]), ("h3", None)]


def test_a_new_request_for_an_instance_may_take_its_place_again(cloud):
    reserve(cloud, "h3")
    fill(cloud)
    scheduler = a_scheduler(cloud)
    for number in range(3):
        assert ask(scheduler, U[0], request_id=f"req-{number}") == ["h3"]
    assert takers(cloud) == [("h3", U[0])]


def test_the_cache_knows_what_is_used_with_places(cloud):
    reserve(cloud, "h3", "h3", "h2")
    scheduler = a_scheduler(cloud)
    ask(scheduler, *U[:2])
    hosts = scheduler.host_cache
    with hosts.current() as table:
        known = {table.get(row, "host"): table.get(row, "free_ram_mb") for row in table.rows()}
        counts = {table.get(row, "host"): table.get(row, "num_instances") for row in table.rows()}
    assert known == {"h1": 8192, "h2": 4096, "h3": 0}
    assert sum(counts.values()) == 2


def test_a_rehearsal_sees_the_places(cloud):
    reserve(cloud, "h3")
    fill(cloud)
    scheduler = a_scheduler(cloud)
    for project, host in (("project1", "h3"), ("other", None)):
        asked = SelectArguments(a_request(project_id=project), [U[0]])
        decision, explanation = scheduler.rehearse(asked, RequestContext())
        assert explanation.chosen == host
        assert bool(decision.shortage) == (host is None)
    assert takers(cloud) == [("h3", None)]
