# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.drivers.chance."""

from collections import Counter

import pytest

from scheduler.decision.pipeline import Plan, Request
from scheduler.drivers.chance import ALL_IGNORED, NONE_UP, ChanceScheduler
from scheduler.objects.request_spec import Destination
from tests.builders import a_request
from tests.hosts import a_host, a_table
from tests.plugins import Drop
from tests.refusals import refusals

SEEDS = 300
REBUILD = {"_nova_check_type": ["rebuild"]}
# Asked nothing: the configured filters have no say.
DRIVER = ChanceScheduler(Plan([Drop("a", "b", "c", "d")]))


def draw(*hosts, count=1, seed=0, **changes):
    """Return the decision about hosts given by name or whole."""
    table = a_table(*(a_host(each) if isinstance(each, str) else each for each in hosts))
    uuids = [f"u{each}" for each in range(count)]
    return DRIVER.decide(table, Request(a_request(**changes), uuids, seed=seed))


def chosen(decision):
    return [(each.chosen.host, each.chosen.nodename) for each in decision.placements]


def often(*hosts, **changes):
    """Return how often each host is chosen first."""
    drawn = (draw(*hosts, seed=seed, **changes) for seed in range(SEEDS))
    return Counter(decision.placements[0].chosen.host for decision in drawn)


def test_each_host_that_is_up_has_the_same_chance():
    found = often("a", "b", "c")
    assert found.keys() == {"a", "b", "c"}
    assert all(abs(each - SEEDS / 3) < SEEDS / 6 for each in found.values())


@pytest.mark.parametrize(
    ("hosts", "ignored", "expected"),
    [
        (["a", "b"], ["a"], {"b"}),
        # Letter case counts.
        (["a"], ["A"], {"a"}),
        (["a", "b"], [], {"a", "b"}),
        (["a", "b"], ["gone"], {"a", "b"}),
        ([a_host("a", service_disabled=True), "b"], None, {"b"}),
        ([a_host("a", heartbeat_age=75.0), "b"], None, {"b"}),
        ([a_host("a", heartbeat_age=None), "b"], None, {"b"}),
        ([a_host("a", forced_down=True), "b"], None, {"b"}),
        ([a_host("a", unserved=True), "b"], None, {"b"}),
    ],
)
def test_who_may_be_drawn(hosts, ignored, expected):
    assert often(*hosts, ignore_hosts=ignored).keys() == expected


@pytest.mark.parametrize(
    "changes",
    [
        {"force_hosts": ["a"]},
        {"availability_zone": "z9"},
        {"memory_mb": 10**9, "vcpus": 10**6},
        {"requested_destination": Destination(host="a")},
        {"scheduler_hints": {"same_host": ["u9"]}},
    ],
)
def test_all_else_of_a_request_is_ignored(changes):
    assert often("a", "b", **changes).keys() == {"a", "b"}


def test_the_limit_of_liveness_is_the_configured_one():
    driver = ChanceScheduler(Plan(), service_down_time=90)
    hosts = a_table(a_host(heartbeat_age=80.0))
    assert driver.decide(hosts, Request(a_request(), ["u"])).placements


@pytest.mark.parametrize(
    ("hosts", "ignored", "reason", "steps"),
    [
        (["a"], ["a"], ALL_IGNORED, ["ComputeFilter 1->1", "ignore_hosts 1->0"]),
        ([a_host("a", forced_down=True)], [], NONE_UP, ["ComputeFilter 1->0", "ignore_hosts 0->0"]),
        ([], None, NONE_UP, ["ComputeFilter 0->0", "ignore_hosts 0->0"]),
    ],
)
def test_without_a_host_the_reason_tells_whether_any_is_up(hosts, ignored, reason, steps):
    decision = draw(*hosts, count=2, ignore_hosts=ignored)
    assert decision.placements == ()
    assert (decision.shortage.index, decision.shortage.instance_uuid) == (0, "u0")
    assert decision.shortage.reason == reason
    assert list(map(str, decision.shortage.steps)) == steps
    assert NONE_UP != ALL_IGNORED


def test_several_instances_go_to_different_hosts_where_there_are_enough():
    for seed in range(50):
        assert len({*chosen(draw("a", "b", "c", count=3, seed=seed))}) == 3
        assert len({*chosen(draw("a", "b", "c", "d", count=3, seed=seed))}) == 3


def test_otherwise_each_goes_to_any_host():
    drawn = [tuple(chosen(draw("a", "b", count=3, seed=seed))) for seed in range(200)]
    # All eight outcomes are possible, those with one host only among them.
    assert len({*drawn}) == 8


def test_a_host_has_one_chance_however_many_nodes_it_has_and_the_answer_names_one():
    hosts = [a_host("a", f"n{each}") for each in range(9)]
    found = Counter(chosen(draw(*hosts, "b", seed=seed))[0] for seed in range(SEEDS))
    of_b = found.pop(("b", "b"))
    assert abs(of_b - SEEDS / 2) < SEEDS / 8
    assert found.keys() == {("a", f"n{each}") for each in range(9)}


def test_two_instances_on_a_host_with_two_nodes_do_not_count_as_two_hosts():
    hosts = [a_host("a", "n1"), a_host("a", "n2")]
    assert {host for host, _ in chosen(draw(*hosts, count=2))} == {"a"}


def test_the_same_seed_draws_the_same_hosts():
    first, second = (chosen(draw("a", "b", "c", count=2, seed=7)) for _ in range(2))
    assert first == second


def test_a_decision_without_limits_or_weights():
    table = a_table(a_host("a", uuid="node", cell_uuid="cell"), a_host("b", forced_down=True))
    decision = DRIVER.decide(table, Request(a_request(), ["u"], alternates=2, seed=5))
    (placement,) = decision.placements
    assert (placement.instance_uuid, placement.chosen.row) == ("u", 0)
    assert (placement.chosen.uuid, placement.chosen.cell_uuid) == ("node", "cell")
    assert (placement.chosen.limits, placement.weighed, placement.alternates) == ({}, (), ())
    assert list(map(str, placement.steps)) == ["ComputeFilter 2->1", "ignore_hosts 1->1"]
    assert (decision.seed, decision.hosts, decision.shortage) == (5, 2, None)
    assert table.vcpus_used.tolist() == [2, 0]
    assert table.free_ram_mb.tolist() == [63488, 65536]


def test_an_instance_that_is_rebuilt_stays_where_it_is():
    found = often("a", "b", "c", force_hosts=["b"], scheduler_hints=REBUILD)
    assert found == {"b": SEEDS}


def test_what_explains_it_is_the_liveness_alone():
    hosts = a_table(a_host("a"), a_host("b", forced_down=True))
    (refusal,) = refusals(hosts, a_request(memory_mb=10**9), DRIVER.plan, most=9)
    assert (refusal.host, refusal.reason) == ("b", "compute service forced down")
