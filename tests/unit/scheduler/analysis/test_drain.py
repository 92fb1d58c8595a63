# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.analysis.drain."""

from collections import Counter
from functools import partial

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from scheduler.analysis.capacity import Simulator
from scheduler.analysis.drain import NEAREST, plan_drain
from scheduler.decision import pipeline
from scheduler.decision.pipeline import Plan
from scheduler.filters.compute import ComputeFilter
from scheduler.filters.core import CoreFilter
from scheduler.filters.ram import RamFilter
from scheduler.filters.server_group_affinity import ServerGroupAffinityFilter
from scheduler.filters.server_group_anti_affinity import ServerGroupAntiAffinityFilter
from scheduler.objects.request_spec import Destination
from scheduler.weighers.ram import RAMWeigher
from tests.builders import a_group, a_request
from tests.hosts import a_host, a_table

PLAN = Plan(
    [
        ComputeFilter(),
        RamFilter(),
        CoreFilter(),
        ServerGroupAntiAffinityFilter(),
        ServerGroupAffinityFilter(),
    ],
    [RAMWeigher()],
)
SIMULATOR = Simulator(partial(pipeline.decide, plan=PLAN), PLAN)


def leaving(uuid, **changes):
    return a_request(**{"instance_uuid": uuid, "vcpus": 1, "memory_mb": 1024} | changes)


def drain(hosts, going, *emptied):
    return plan_drain(hosts, going, emptied or ["old"], SIMULATOR)


def targets(moves):
    return {each.spec.instance_uuid: each.target and each.target.host for each in moves}


def a_cloud(**free):
    """Return hosts with so many GB of memory free; the first of them has the instances a to d."""
    there = {"instances": [*"abcd"]}
    return a_table(
        *(
            a_host(host, free_ram_mb=1024 * gb, **({} if number else there))
            for number, (host, gb) in enumerate(free.items())
        )
    )


def test_the_largest_goes_first_and_what_is_taken_is_taken():
    hosts = a_cloud(old=64, A=4, B=3)
    wishes = [("a", 1), ("b", 4), ("c", 2), ("d", 1)]
    moves = drain(hosts, [leaving(uuid, memory_mb=1024 * gb) for uuid, gb in wishes])
    assert list(targets(moves).items()) == [("b", "A"), ("c", "B"), ("a", "B"), ("d", None)]
    refused = moves[-1]
    assert refused.limits == [("RamFilter", 2)]
    assert [(each.host, each.reason) for each in refused.nearest] == [
        ("A", "needs 1024 MB of memory, 0 left of 65536 x 1.0"),
        ("B", "needs 1024 MB of memory, 0 left of 65536 x 1.0"),
    ]


def test_equal_ones_go_by_vcpus_and_then_by_name():
    hosts = a_cloud(old=64, A=64)
    wishes = {"b": 1, "a": 1, "c": 2}
    moves = drain(hosts, [leaving(*w[:1], vcpus=w[1]) for w in wishes.items()])
    assert list(targets(moves)) == ["c", "a", "b"]


def test_none_goes_to_a_host_that_is_to_be_emptied_as_well():
    hosts = a_cloud(old=64, old2=64, A=1)
    moves = drain(hosts, [leaving("a"), leaving("z")], "old", "old2")
    assert targets(moves) == {"a": "A", "z": None}
    assert {each.host for each in moves[1].nearest} == {"A"}


def test_a_host_without_instances_is_to_be_emptied_as_well():
    hosts = a_cloud(old=64, A=64, B=1)
    assert targets(drain(hosts, [leaving("a")], "old", "A")) == {"a": "B"}


def test_the_nearest_hosts_are_those_that_the_fewest_filters_refuse():
    hosts = a_table(
        a_host("old"),
        a_host("A", free_ram_mb=0, vcpus_used=16),
        *(a_host(f"B{n}", free_ram_mb=0) for n in range(NEAREST)),
        a_host("C", service_disabled=True, free_ram_mb=0, vcpus_used=16),
        a_host("D", unserved=True, free_ram_mb=0),
    )
    (move,) = drain(hosts, [leaving("a")])
    assert move.limits == [("RamFilter", 4), ("compute_service", 1), ("ComputeFilter", 1)]
    assert [each.host for each in move.nearest] == ["B0", "B1", "B2"]


@pytest.mark.parametrize(
    ("policy", "members", "expected"),
    [
        ("anti-affinity", "ab", {"a": "A", "b": "B"}),
        # c lives on B, and stays there.
        ("anti-affinity", "abz", {"a": "A", "b": None}),
        ("affinity", "abz", {"a": "B", "b": "B"}),
        # All of them leave: the first goes where it likes, and the others after it.
        ("affinity", "ab", {"a": "A", "b": "A"}),
        (None, "ab", {"a": "A", "b": "A"}),
    ],
)
def test_server_groups_are_respected(policy, members, expected):
    hosts = a_table(
        a_host("old", instances=[*"ab"]), a_host("A"), a_host("B", free_ram_mb=32768, instances="z")
    )
    group = a_group(policy, members=[*members], hosts=["old", "gone"])
    moves = drain(hosts, [leaving(uuid, instance_group=group) for uuid in "ab"])
    assert targets(moves) == expected
    assert group.hosts == ["old", "gone"]


@pytest.mark.parametrize(
    ("policy", "stays", "free", "expected"),
    [
        ("affinity", [], 64, [True, True]),
        # Where a member stays, each of them can follow it.
        ("affinity", ["z"], 64, [False, False]),
        ("soft-affinity", [], 64, [False, False]),
        # An instance without a target is not one of them.
        ("affinity", [], 1, [True, False]),
    ],
)
def test_members_that_can_only_move_together_are_reported(policy, stays, free, expected):
    hosts = a_table(
        a_host("old", instances=[*"ab"]), a_host("A", free_ram_mb=1024 * free, instances=stays)
    )
    group = a_group(policy, members=["a", "b", "z"])
    moves = drain(hosts, [leaving(uuid, instance_group=group) for uuid in "ab"])
    assert [each.only_together for each in moves] == expected
    # An only member has no others to move with.
    lone = a_group(policy, members=["c"])
    (move,) = drain(a_cloud(old=9, A=9), [leaving("c", instance_group=lone)])
    assert not move.only_together


def test_what_an_instance_asks_for_itself_counts():
    hosts = a_cloud(old=64, A=64, B=32)
    wanted = Destination(host="B")
    (move,) = drain(hosts, [leaving("a", requested_destination=wanted)])
    assert move.target.host == "B"


def test_nothing_to_move_is_no_trouble():
    assert drain(a_cloud(old=64), []) == []


@given(
    st.lists(st.integers(0, 8), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(1, 4), st.sampled_from([None, "g1", "g2"])), max_size=8),
)
def test_nothing_is_promised_twice(free, wishes):
    hosts = a_table(
        a_host("old", instances=[f"i{n}" for n in range(len(wishes))]),
        *(a_host(f"h{n}", free_ram_mb=1024 * gb) for n, gb in enumerate(free)),
    )
    names = [name for _, name in wishes]
    going = []
    for number, (gb, name) in enumerate(wishes):
        mates = [f"i{n}" for n, other in enumerate(names) if other == name]
        group = name and a_group("anti-affinity", uuid=name, members=mates)
        size = {"memory_mb": 1024 * gb, "instance_group": group}
        going.append(leaving(f"i{number}", **size))
    moves = drain(hosts.working_copy(), going)
    assert Counter(each.spec.instance_uuid for each in moves) == Counter(
        each.instance_uuid for each in going
    )
    used, groups = Counter(), set()
    for move in moves:
        if move.target is None:
            assert move.nearest
            continue
        spec = move.spec
        used[move.target.host] += spec.memory_mb
        member = spec.instance_group and (spec.instance_group.uuid, move.target.host)
        assert member is None or member not in groups
        groups.add(member)
    assert all(mb <= 1024 * free[int(host[1:])] for host, mb in used.items())
    event(f"{sum(each.target is None for each in moves)} refused")
