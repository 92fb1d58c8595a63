# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.decision.pipeline: several instances, alternates, and what fails half way."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.decision.pipeline import Plan, Request, decide
from scheduler.filters.ram import RamFilter
from scheduler.filters.server_group_affinity import ServerGroupAffinityFilter
from scheduler.filters.server_group_anti_affinity import ServerGroupAntiAffinityFilter
from scheduler.hosts.columns import NUMBERS, OBJECTS
from scheduler.weighers.cpu import CPUWeigher
from scheduler.weighers.ram import RAMWeigher
from tests.builders import a_group, a_request
from tests.hosts import a_host, a_table, hosts_with
from tests.plugins import DropOnce

BY_RAM = Plan([RamFilter()], [RAMWeigher()])
SPEC = a_request(memory_mb=2048)


def place(free_ram_mb, count, alternates=0, plan=BY_RAM, spec=SPEC):
    """Return for each of count instances the names of its host and of its alternates."""
    hosts = hosts_with("free_ram_mb", free_ram_mb)
    uuids = [f"u{each}" for each in range(count)]
    return names(decide(hosts, Request(spec, uuids, alternates), plan))


def names(decision):
    return [
        "".join(each.host for each in (placement.chosen, *placement.alternates))
        for placement in decision.placements
    ]


@pytest.mark.parametrize(
    ("free", "count", "expected"),
    [
        # After the first, A and B are equal: A comes first in the table.
        ({"A": 8192, "B": 6144, "C": 4096}, 3, ["A", "A", "B"]),
        ({"A": 4096, "B": 4096, "C": 4096}, 3, ["A", "B", "C"]),
        ({"A": 2048, "B": 2048}, 3, []),
        ({"A": 2048, "B": 2048}, 2, ["A", "B"]),
    ],
)
def test_several_instances_worked_cases(free, count, expected):
    assert place(free, count) == expected


@pytest.mark.parametrize("weighers", [[], [RAMWeigher(multiplier=0.0)]])
def test_without_weights_the_first_host_gets_all(weighers):
    free = dict.fromkeys("ABC", 8192)
    assert place(free, 3, plan=Plan((), weighers)) == ["A", "A", "A"]


def test_ties_go_to_the_first_host_of_the_table_also_for_later_instances():
    # Of Nova's equals the one chosen last comes first: B again.
    assert place({"A": 6144, "B": 8192}, 2, plan=Plan((), [RAMWeigher()])) == ["B", "A"]


@pytest.mark.parametrize(
    ("free", "count", "expected"),
    [
        ({"A": 8192, "B": 6144, "C": 4096}, 1, ["ABC"]),
        ({"A": 3072, "B": 3072, "C": 3072, "D": 3072, "E": 2048}, 1, ["ABC"]),
        # Hosts that took an instance are weighed, but are no alternates.
        ({"A": 8192, "B": 6144, "C": 4096}, 3, ["AC", "AC", "BC"]),
        ({"A": 8192, "B": 1024}, 1, ["A"]),
        ({"A": 8192}, 2, ["A", "A"]),
    ],
)
def test_alternates_worked_cases(free, count, expected):
    assert place(free, count, alternates=2) == expected


def in_cells(**cells):
    """Return hosts of these cells, each with less memory than the one before."""
    return a_table(
        *(
            a_host(host, free_ram_mb=9000 - 1000 * position, cell_uuid=cell)
            for position, (host, cell) in enumerate(cells.items())
        )
    )


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ({"A": "c1", "B": "c2", "C": "c1"}, ["AC"]),
        # Better hosts of another cell do not stand in the way, and as many are found as asked for.
        ({"A": "c1", "B": "c2", "C": "c2", "D": "c1", "E": "c2", "F": "c1", "G": "c1"}, ["ADF"]),
        ({"A": "c1", "B": "c2", "C": "c2"}, ["A"]),
        ({"A": None, "B": "c2", "C": None, "D": None}, ["ACD"]),
        ({"A": "c1", "B": None, "C": "c1"}, ["AC"]),
    ],
)
def test_alternates_are_of_the_cell_of_the_chosen_host(cells, expected):
    assert names(decide(in_cells(**cells), Request(SPEC, ["u"], 2), BY_RAM)) == expected


def test_each_instance_has_the_alternates_of_its_own_cell():
    plan = Plan([ServerGroupAntiAffinityFilter()], [RAMWeigher()])
    spec = a_request(memory_mb=1, instance_group=a_group("anti-affinity"))
    hosts = in_cells(A="c1", B="c2", C="c3", D="c2", E="c1", F="c2", G="c2", H="c1", I="c1")
    request = Request(spec, ["u1", "u2", "u3"], 2)
    assert names(decide(hosts, request, plan)) == ["AEH", "BDF", "C"]


def test_alternates_have_room_for_one_more_instance():
    # After two instances C is full, so a third could not be tried there.
    assert place({"A": 4096, "B": 4096, "C": 2047}, 2, alternates=2) == ["A", "B"]
    assert place({"A": 2048, "B": 2048, "C": 2048, "D": 2048}, 2, alternates=1) == ["AC", "BC"]


def test_alternates_have_limits_and_weights_of_their_own():
    hosts = hosts_with("free_ram_mb", {"A": 8192, "B": 4096, "C": 2048})
    alternates = decide(hosts, Request(SPEC, ["u"], 2), BY_RAM).placements[0].alternates
    # Of the list in which A was the best.
    assert [(each.host, each.weight) for each in alternates] == [("B", 0.5), ("C", 0.25)]
    assert [each.limits for each in alternates] == [{"memory_mb": 65536.0}] * 2


def test_alternates_keep_their_order_beside_the_chosen_host():
    # Without A, which has the most memory by far, C would come before B.
    hosts = a_table(
        a_host("A", free_ram_mb=60000, vcpus_used=2),
        a_host("B", free_ram_mb=4000, vcpus_used=4),
        a_host("C", free_ram_mb=6000, vcpus_used=7),
    )
    plan = Plan((), [RAMWeigher(), CPUWeigher()])
    assert names(decide(hosts.working_copy(), Request(SPEC, ["u"], 2), plan)) == ["ABC"]
    without = Request(a_request(memory_mb=2048, ignore_hosts=["A"]), ["u"], 2)
    assert names(decide(hosts, without, plan)) == ["CB"]


def test_for_several_instances_alternates_are_weighed_once_more():
    # With one instance each, A and B weigh what is left of them: C, then D.
    once = DropOnce()
    plan = Plan([once, RamFilter()], [RAMWeigher()])
    free = {"A": 9000, "B": 8000, "C": 5000, "D": 6000}
    assert place(free, 2, alternates=1, plan=plan) == ["AD", "BD"]
    # Asked for the first instance only: not for the second, and not for the one after it.
    assert [uuid for _, uuid in once.asked] == ["u0"] * 4


def test_alternates_keep_away_from_the_hosts_of_all_instances_of_an_anti_affinity_group():
    hosts = a_table(
        a_host("A", free_ram_mb=9000),
        a_host("B", "n1", free_ram_mb=8000),
        a_host("B", "n2", free_ram_mb=7000),
        a_host("C", free_ram_mb=6000),
    )
    spec = a_request(instance_group=a_group("anti-affinity"))
    plan = Plan([ServerGroupAntiAffinityFilter()], [RAMWeigher()])
    # The other node of B would do for the second instance, but not for the first.
    assert names(decide(hosts, Request(spec, ["u1", "u2"], 1), plan)) == ["AC", "BC"]


def test_a_shortage_names_the_instance_and_where_the_hosts_went():
    hosts = hosts_with("free_ram_mb", {"A": 2048, "B": 2048})
    shortage = decide(hosts, Request(SPEC, ["u1", "u2", "u3"]), BY_RAM).shortage
    assert (shortage.index, shortage.instance_uuid) == (2, "u3")
    # A, full since the first instance, was refused for the second and is not asked again.
    assert list(map(str, shortage.steps)) == ["RamFilter 1->0"]


@given(st.integers(1, 6), st.integers(0, 6))
def test_a_working_copy_keeps_what_a_request_takes_from_the_table(hosts, instances):
    table = hosts_with("free_ram_mb", {f"h{each}": 3000 for each in range(hosts)})
    before = contents(table)
    uuids = [f"u{each}" for each in range(instances)]
    spec = a_request(memory_mb=2048, instance_group=a_group("anti-affinity", members=uuids))
    plan = Plan([RamFilter(), ServerGroupAntiAffinityFilter()], [RAMWeigher()])
    decision = decide(table.working_copy(), Request(spec, uuids), plan)
    assert bool(decision.shortage) == (instances > hosts)
    assert contents(table) == before
    assert table.warnings == {}
    assert dict(table.limits.of(0)) == {}


def contents(table):
    columns = {name: getattr(table, name).tolist() for name in NUMBERS - {"updated", "last_seen"}}
    objects = {name: [table.get(row, name) for row in table.rows()] for name in OBJECTS}
    return columns, objects, [dict(table.instances.on(row)) for row in table.rows()]


@given(st.lists(st.integers(0, 12000), min_size=1, max_size=5), st.integers(1, 6))
def test_no_host_is_given_more_than_it_has(free, count):
    hosts = hosts_with("free_ram_mb", {f"h{each}": mb for each, mb in enumerate(free)})
    uuids = [f"u{each}" for each in range(count)]
    decision = decide(hosts, Request(SPEC, uuids), BY_RAM)
    room = sum(mb // 2048 for mb in free)
    assert bool(decision.shortage) == (room < count)
    if not decision.shortage:
        taken = np.array(free) - hosts.free_ram_mb
        assert (hosts.free_ram_mb >= 0).all()
        assert taken.sum() == 2048 * count


@pytest.mark.parametrize("members", [["u0", "u1", "u2"], []])
def test_members_of_an_anti_affinity_group_see_each_other(members):
    # Also when the group does not list the instances that are only now being made.
    spec = a_request(instance_group=a_group("anti-affinity", members=members))
    plan = Plan([ServerGroupAntiAffinityFilter()], [RAMWeigher()])
    assert place({"A": 9000, "B": 5000, "C": 4000}, 3, plan=plan, spec=spec) == ["A", "B", "C"]
    assert place({"A": 9000, "B": 5000}, 3, plan=plan, spec=spec) == []


@pytest.mark.parametrize("members", [[], ["u0", "u1", "u2"]])
def test_as_many_members_share_a_host_as_the_rule_allows(members):
    group = a_group("anti-affinity", members=members, rules={"max_server_per_host": 2})
    spec = a_request(instance_group=group)
    plan = Plan([ServerGroupAntiAffinityFilter()], [RAMWeigher()])
    assert place({"A": 90_000, "B": 5000}, 3, plan=plan, spec=spec) == ["A", "A", "B"]
    assert place({"A": 90_000}, 3, plan=plan, spec=spec) == []


def test_members_of_an_affinity_group_follow_the_first():
    spec = a_request(instance_group=a_group("affinity"))
    plan = Plan([ServerGroupAffinityFilter()], [RAMWeigher()])
    assert place({"A": 5000, "B": 9000}, 3, plan=plan, spec=spec) == ["B", "B", "B"]
    # An alternate must not tear the group apart, except for a group that is just one instance.
    assert place({"A": 5000, "B": 9000}, 3, 2, plan=plan, spec=spec) == ["B", "B", "B"]
    assert place({"A": 5000, "B": 9000}, 1, 2, plan=plan, spec=spec) == ["BA"]
