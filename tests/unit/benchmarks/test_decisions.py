# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of benchmarks.decisions and of what benchmarks beside Nova share."""

from itertools import islice

import pytest

from benchmarks import comparable, nova
from benchmarks.decisions import cases, streams
from benchmarks.decisions.cases import Case
from benchmarks.decisions.growth import exponent, growth
from benchmarks.decisions.sides import Nova, Numpy, Ours
from benchmarks.figures import NOVA, OURS, Figure, find
from tests.fixtures import availability


@pytest.fixture(scope="module")
def peer():
    availability.require(availability.NOVA)
    with nova.a_peer("benchmarks.peer.decisions") as found:
        yield found


def _figure(who, milliseconds, **case):
    return Figure("decide", who, "ms", [milliseconds], Case(**case).to_dict(), {"same_hosts": True})


@pytest.mark.parametrize(
    "case",
    [
        Case(60, 40),
        Case(60, 10, weighing=cases.STACK),
        Case(60, 10, aggregate_sets=2_000),
        Case(60, 10, list=cases.COMPARABLE),
        Case(60, 10, grouped=0.1),
        Case(60, 3, grouped=0.1, policy=cases.AFFINITY),
    ],
)
def test_nova_chooses_the_same_hosts(case, peer):
    fleet = case.fleet()
    wish, rival = case.wish(fleet), Nova(peer, fleet)
    rival.set(case.settings)
    ours = Ours(fleet.table(), case.settings).decide(wish, case.instances)
    # The second time as the first: nothing stays taken.
    for _ in range(2):
        assert rival.decide(wish, case.instances).hosts == ours.hosts
    assert len(ours.hosts) == case.instances
    assert rival.decide(wish).ms > 0


@pytest.mark.parametrize("kind", [streams.ordinary, streams.fresh])
def test_what_streams_take_stays_taken_on_both_sides(kind, peer):
    fleet = comparable.fleet(30)
    ours, rival = Ours(fleet.table(), {}), Nova(peer, fleet)
    rival.set({})
    wishes = list(islice(kind(), 12))
    chosen = [ours.answer(wish).hosts for wish in wishes]
    assert [rival.answer(wish).hosts for wish in wishes] == chosen
    assert chosen != [Ours(fleet.table(), {}).decide(wish).hosts for wish in wishes]


@pytest.mark.parametrize(("hosts", "instances"), [(1, 3), (60, 40), (500, 20)])
def test_numpy_chooses_the_same_hosts(hosts, instances):
    fleet = comparable.fleet(hosts)
    ours = Ours(fleet.table(), {}).decide(comparable.PLAIN, instances)
    bare = Numpy(fleet)
    for _ in range(2):
        assert bare.decide(comparable.PLAIN, instances).hosts == ours.hosts


def test_an_exponent_is_the_slope_of_the_logarithms():
    assert exponent({10: 3.0, 100: 30.0, 1_000: 300.0}) == pytest.approx(1)
    assert exponent({10: 7.0, 1_000: 7.0}) == pytest.approx(0)
    assert exponent({1: 2.0, 100: 20.0, 10_000: 200.0}) == pytest.approx(0.5)


def test_growth_is_of_the_matrix_alone():
    figures = [
        _figure(OURS, 9.0, hosts=100),
        _figure(OURS, 1.0, hosts=1_000),
        _figure(OURS, 10.0, hosts=10_000),
        _figure(OURS, 109.0, hosts=10_000, instances=100),
        _figure(OURS, 5_000.0, hosts=10_000, weighing=cases.STACK),
        _figure(OURS, 5_000.0, hosts=10_000, list=cases.COMPARABLE),
        Figure("decide", OURS, "ms", [700.0], {"hosts": 10_000, "instances": 1, "stream": True}),
        _figure(NOVA, 1.0, hosts=1_000),
    ]
    found = list(growth(figures))
    assert {each.who for each in found} == {OURS}
    by_hosts = find(found, "growth with hosts", instances=1)
    assert by_hosts.median == pytest.approx(1)
    assert (by_hosts.unit, by_hosts.facts) == ("exponent", {"from": 1_000, "to": 10_000})
    assert find(found, "growth with instances", hosts=10_000).median == pytest.approx(0.5187, 1e-3)
    further = find(found, "further instance", hosts=10_000)
    assert (further.unit, further.median) == ("ms", pytest.approx(1))
    assert further.facts == {"instances": 100, "of_first": pytest.approx(0.1)}


def test_nova_takes_part_where_that_is_a_matter_of_seconds():
    parts = [each for each in cases.WHOLE if each.with_nova]
    assert Case(100_000) in parts
    assert Case(10_000, 10, weighing=cases.STACK) in parts
    assert Case(10_000, 100) not in parts
    assert all(each.turns_of_nova(9)[1] >= 1 for each in parts)
    assert Case(10_000).turns_of_nova(2) == (0, 2)
    assert Case(100).turns_of_nova(9) == (1, 9)
