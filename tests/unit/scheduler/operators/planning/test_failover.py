# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.operators.planning.failover."""

from collections import Counter

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from scheduler.operators.planning.draining import drain
from scheduler.operators.planning.failover import (
    FailureDomain,
    Outcome,
    count_places,
    failure_domains,
    simulate,
)
from scheduler.operators.planning.fleet import Fleet
from scheduler.operators.planning.types import EVACUATION, MOVING, NOT_BUILT
from tests.fleets import Guest, a_fleet, places
from tests.hosts import in_aggregates
from tests.unit.scheduler.operators.planning.test_plans import Drawn, always, drawn


def lost(fleet: Fleet, *hosts: str) -> FailureDomain:
    rows = [row for host in hosts for row in fleet.hosts.rows_of_host(host)]
    return FailureDomain("rack", rows)


def after(fleet: Fleet, *hosts: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return where the instances of lost hosts go, and why others go nowhere."""
    plan = simulate(fleet, lost(fleet, *hosts), always)
    return (
        {each.uuid: each.target.host for each in plan.moves},
        {each.uuid: each.why for each in plan.unplanned},
    )


def test_a_host_is_in_all_domains_of_its_aggregates_or_one_for_itself():
    domains = {"h4": [], "h1": ["r1"], "h2": ["r1", "p1"], "h3": [" p1 ,r2,"]}
    hosts = {
        name: {"aggregates": in_aggregates("failure_domain", each)}
        for name, each in domains.items()
    } | {"h0": {"aggregates": in_aggregates("rack", ["r1"])}}
    fleet = a_fleet(hosts)
    found = failure_domains(fleet.hosts)
    assert [
        (name, [fleet.place(row).host for row in rows], is_host) for name, rows, is_host in found
    ] == [
        ("p1", ["h2", "h3"], False),
        ("r1", ["h1", "h2"], False),
        ("r2", ["h3"], False),
        ("h0", ["h0"], True),
        ("h4", ["h4"], True),
    ]


def test_the_largest_goes_first_and_none_to_a_host_that_is_lost_as_well():
    guests = [Guest("a", "old"), Guest("b", "old2", 4), Guest("c", "old", 2)]
    fleet = a_fleet({"old": 64, "old2": 64, "A": 4, "B": 2}, guests)
    plan = simulate(fleet, lost(fleet, "old", "old2"), always)
    assert [(each.uuid, each.target.host, each.kind) for each in plan.moves] == [
        ("b", "A", EVACUATION),
        ("c", "B", EVACUATION),
    ]
    (left,) = plan.unplanned
    assert (left.uuid, left.limits) == ("a", [("RamFilter", 2)])
    assert {host for host, *_ in left.nearest} == {"A", "B"}
    assert plan.result == {
        "domain": "rack",
        "hosts": ["old", "old2"],
        "instances": 3,
        "placed": 2,
        "refused": 1,
        "reached": False,
    }


def test_nothing_moves_to_make_room():
    """A drain moves b to B first."""
    guests = [Guest("d", "old", 4), Guest("b", "A", 2), Guest("c", "B", 2)]
    fleet = a_fleet({"old": 8, "A": 5, "B": 4}, guests)
    assert after(fleet, "old") == ({}, {"d": "no host takes it"})


def test_nothing_goes_to_a_host_that_is_down():
    fleet = a_fleet({"old": 8, "A": 64, "B": 4}, [Guest("a", "old")])
    (row,) = fleet.hosts.rows_of_host("A")
    fleet.down[row] = fleet.closed[row] = True
    assert after(fleet, "old") == ({"a": "B"}, {})


@pytest.mark.parametrize("state", [MOVING, NOT_BUILT])
def test_what_is_not_or_not_only_on_its_host_is_not_evacuated(state):
    fleet = a_fleet({"old": 8, "A": 64}, [Guest("a", "old", how={"fixed": state})])
    assert after(fleet, "old") == ({}, {"a": state})


@pytest.mark.parametrize("state", ["active", "stopped", "error"])
@pytest.mark.parametrize("task", [None, "image_snapshot"])
def test_what_nova_evacuates_goes_whatever_its_task(state, task):
    busy = {"fixed": f"is busy ({task})" if task else f"is in state {state}"}
    fleet = a_fleet({"old": 8, "A": 64}, [Guest("a", "old", how=busy, state=state, task=task)])
    assert after(fleet, "old") == ({"a": "A"}, {})


@pytest.mark.parametrize(
    "state", ["paused", "suspended", "rescued", "resized", "shelved", "soft-delete", "deleted"]
)
def test_what_nova_does_not_evacuate_stays_and_the_others_go(state):
    guests = [Guest("a", "old", 2, state=state), Guest("b", "old")]
    fleet = a_fleet({"old": 8, "A": 64}, guests)
    assert count_places(fleet, lost(fleet, "old"), always) == Outcome(2, 1, 1)
    why = f"is in state {state}: Nova evacuates only instances that are active, stopped or in error"
    assert after(fleet, "old") == ({"b": "A"}, {"a": why})


@pytest.mark.parametrize("task", ["deleting", "soft-deleting"])
def test_what_is_being_deleted_is_not_brought_back(task):
    fleet = a_fleet({"old": 8, "A": 64}, [Guest("a", "old", task=task)])
    assert after(fleet, "old") == ({}, {"a": "is being deleted"})


def test_server_groups_are_respected():
    guests = [Guest("a", "old"), Guest("b", "old"), Guest("z", "B")]

    def outcome(groups):
        found, left = after(a_fleet({"old": 8, "A": 8, "B": 8}, guests, groups), "old")
        return {*found.values()}, {*left}

    assert outcome({"anti-affinity": "ab"}) == ({"A", "B"}, set())
    assert outcome({"anti-affinity": "abz"}) == ({"A"}, {"b"})
    # No scheduler evacuates one of them away from the other.
    assert outcome({"affinity": "ab"}) == (set(), {"a", "b"})


def test_an_interrupted_search_is_not_complete():
    fleet = a_fleet({"old": 8, "A": 8}, [Guest("a", "old"), Guest("b", "old")])
    answers = iter([True, False])
    plan = simulate(fleet, lost(fleet, "old"), lambda: next(answers))
    assert (len(plan.moves), plan.unplanned, plan.is_complete) == (1, [], False)
    answers = iter([True, False])
    fleet.roll_back(0)
    assert count_places(fleet, lost(fleet, "old"), lambda: next(answers)) == Outcome(2, 1, 0)


def test_the_loss_of_nothing_is_survived():
    plan = simulate(fleet := a_fleet({"old": 8}), lost(fleet, "old"), always)
    assert plan.is_complete
    assert not plan.moves


SOME = st.sets(st.sampled_from(["h0", "h1", "h2"]), min_size=1)


@given(drawn(hosts=5, guests=14), SOME)
def test_every_place_is_there_when_all_of_them_are_taken(fleet: Drawn, hosts: set[str]) -> None:
    """Sizes and server groups are counted by hand, on the hosts that are left."""
    planned = fleet.fleet()
    before = places(planned)
    hosts &= {*fleet.hosts}
    moved, left = after(planned, *hosts)
    assert moved.keys() | left.keys() == {uuid for uuid, host in before.items() if host in hosts}
    assert not hosts & {*moved.values()}
    survivors = {uuid: host for uuid, host in before.items() if host not in hosts} | moved
    sizes, used = {each.name: each.gb for each in fleet.guests}, Counter[str]()
    for uuid, host in survivors.items():
        used[host] += sizes[uuid]
    assert all(gb <= fleet.hosts[host] for host, gb in used.items())
    for policy, names in fleet.groups.items():
        there = [survivors[each] for each in names if each in survivors]
        assert len({*there}) == (len(there) if policy == "anti-affinity" else min(1, len(there)))
    event(f"{len(moved)} placed, {len(left)} refused")


@given(drawn(hosts=5, guests=14))
def test_the_instances_of_a_host_have_the_places_that_a_drain_gives_them(fleet: Drawn) -> None:
    """Unless others move in the drain to make room."""
    plan = drain(fleet.fleet(), ["h0"], None, always)
    others = [each for each in plan.moves if each.source.host != "h0"]
    event(f"others move: {bool(others)}; all have a place: {plan.is_complete}")
    if not others:
        moved, left = after(fleet.fleet(), "h0")
        assert moved == {each.uuid: each.target.host for each in plan.moves}
        assert left == {each.uuid: each.why for each in plan.unplanned}


@given(drawn(hosts=5, guests=14), SOME)
def test_counting_the_places_changes_nothing(fleet: Drawn, hosts: set[str]) -> None:
    counted, hosts = fleet.fleet(), hosts & {*fleet.hosts}
    memory = counted.hosts.free_ram_mb.tolist()
    outcome = count_places(counted, lost(counted, *hosts), always)
    assert places(counted) == places(fleet.fleet())
    assert counted.hosts.free_ram_mb.tolist() == memory
    assert not counted.moves
    assert not counted.closed.any()
    assert not counted.lost.any()
    moved, left = after(counted, *hosts)
    assert outcome == Outcome(len(moved) + len(left), len(moved), len(left))
