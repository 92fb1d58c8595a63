# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.operators.planning.draining."""

from scheduler.operators.planning.balancing import balance, resource_load
from scheduler.operators.planning.draining import drain
from scheduler.operators.planning.types import Budget, MovePlan
from tests.devices import a_pool, devices
from tests.fleets import GB, Guest, a_fleet, places
from tests.unit.scheduler.operators.planning.followed import follow


def always() -> bool:
    return True


def targets(plan: MovePlan) -> list[tuple[str, str]]:
    return [(each.uuid, each.target.host) for each in plan.moves]


def test_the_largest_goes_first_and_what_is_taken_is_taken():
    sizes = {"a": 1, "b": 4, "c": 2, "d": 1}
    fleet = a_fleet(
        {"old": 64, "A": 4, "B": 3}, [Guest(name, "old", gb) for name, gb in sizes.items()]
    )
    plan = drain(fleet, ["old"], None, always)
    assert targets(plan) == [("b", "A"), ("c", "B"), ("a", "B")]
    assert not plan.is_complete
    (left,) = plan.unplanned
    assert (left.uuid, left.place, left.limits) == ("d", ("old", "old"), [("RamFilter", 2)])
    assert left.nearest == [
        ("A", "RamFilter", "needs 1024 MB of memory, 0 left of 4096 x 1.0"),
        ("B", "RamFilter", "needs 1024 MB of memory, 0 left of 3072 x 1.0"),
    ]


def test_equal_ones_go_by_vcpus_and_then_by_name():
    guests = [Guest("b", "old"), Guest("a", "old"), Guest("c", "old", vcpus=2)]
    plan = drain(a_fleet({"old": 64, "A": 64}, guests), ["old"], None, always)
    assert [uuid for uuid, _ in targets(plan)] == ["c", "a", "b"]


def test_none_goes_to_a_host_that_is_emptied_with_its_own():
    guests = [Guest("a", "old"), Guest("z", "old2")]
    fleet = a_fleet({"old": 64, "old2": 64, "A": 1}, guests)
    plan = drain(fleet, ["old", "old2"], None, always)
    assert targets(plan) == [("a", "A")]
    assert {host for host, *_ in plan.unplanned[0].nearest} == {"A"}


def test_others_make_room_where_there_is_none():
    """d fits on no host, until b has left A for B."""
    guests = [Guest("d", "old", 4), Guest("b", "A", 2), Guest("c", "B", 2)]
    hosts = {"old": 8, "A": 5, "B": 4}
    fleet = a_fleet(hosts, guests)
    plan = drain(fleet, ["old"], None, always)
    assert targets(plan) == [("b", "B"), ("d", "A")]
    assert [each.reason for each in plan.moves] == ["makes room for d", "old is to be emptied"]
    assert [each.step for each in plan.moves] == [1, 2]
    follow(a_fleet(hosts, guests), plan.moves)


def test_hosts_that_are_back_take_the_instances_of_the_next_ones():
    hosts = {f"h{n}": 8 for n in range(4)}
    guests = [Guest(f"i{n}{k}", f"h{n}", 2) for n in range(4) for k in range(2 if n else 1)]
    fleet = a_fleet(hosts, guests)
    plan = drain(fleet, [*hosts], 1, always)
    assert plan.is_complete
    assert plan.result["stages"] == [["h0"], ["h1"], ["h2"], ["h3"]]
    # The first is emptied onto hosts that have to be emptied later; from then on each moves once.
    assert [each.uuid for each in plan.moves if each.stage == 1] == ["i00"]
    for number in (2, 3):
        hosts_before = {f"h{n}" for n in range(number - 1)}
        assert {each.target.host for each in plan.moves if each.stage == number} <= hosts_before
    follow(a_fleet(hosts, guests), plan.moves)


def test_all_hosts_of_a_stage_are_empty_at_its_end():
    hosts = {f"h{n}": 8 for n in range(6)}
    guests = [Guest(f"i{n}{k}", f"h{n}", 2) for n in range(6) for k in range(2)]
    plan = drain(a_fleet(hosts, guests), [*hosts], 2, always)
    assert plan.is_complete
    fleet = a_fleet(hosts, guests)
    for number, emptied in enumerate(plan.result["stages"], 1):
        follow(fleet, [each for each in plan.moves if each.stage == number])
        assert not {*emptied} & {*places(fleet).values()}


def test_server_groups_are_respected():
    guests = [Guest("a", "old"), Guest("b", "old"), Guest("z", "B")]
    hosts = {"old": 64, "A": 64, "B": 64}

    def plan(groups):
        return drain(a_fleet(hosts, guests, groups), ["old"], None, always)

    assert sorted(targets(plan({"anti-affinity": "ab"}))) == [("a", "A"), ("b", "B")]
    apart = plan({"anti-affinity": "abz"})
    assert targets(apart) == [("a", "A")]
    assert apart.unplanned[0].limits == [("ServerGroupAntiAffinityFilter", 2)]
    assert targets(plan({"affinity": "bz"})) == [("a", "A"), ("b", "B")]
    # No request moves one of them away from the other.
    assert {each.uuid for each in plan({"affinity": "ab"}).unplanned} == {"a", "b"}


def test_an_instance_that_cannot_be_moved_says_why():
    guests = [Guest("a", "old", how={"fixed": "is in state error"}), Guest("b", "old")]
    plan = drain(a_fleet({"old": 64, "A": 64}, guests), ["old"], None, always)
    assert targets(plan) == [("b", "A")]
    assert [each.why for each in plan.unplanned] == ["is in state error"]


def test_an_interrupted_plan_is_not_complete():
    guests = [Guest("a", "old"), Guest("b", "old2")]
    fleet = a_fleet({"old": 64, "old2": 64, "A": 64}, guests)
    answers = iter([True, *[False] * 100])
    plan = drain(fleet, ["old", "old2"], 1, lambda: next(answers))
    assert targets(plan) == [("a", "A")]
    assert not plan.is_complete
    assert plan.result["stages"] == [["old"]]


def test_nothing_to_move_is_no_trouble():
    plan = drain(a_fleet({"old": 64, "A": 64}), ["old"], None, always)
    assert plan.is_complete
    assert not plan.moves


def test_hosts_with_free_devices_are_left_to_those_that_need_one():
    """Though the schedulers would choose the emptiest host."""
    large = {"total_usable_ram_mb": 64 * GB, "free_ram_mb": 64 * GB, "vcpus_total": 64}
    hosts = {"old": 8, "devices": large | {"pci_stats": devices(a_pool(1))}, "plain": 2}
    guests = [Guest("a", "old", 2), Guest("b", "old", 1)]
    plan = drain(a_fleet(hosts, guests), ["old"], None, always)
    # Where no other has room they are used.
    assert targets(plan) == [("a", "plain"), ("b", "devices")]
    # One whose devices are all taken is like any other.
    hosts["devices"] = large | {"pci_stats": devices(a_pool(0))}
    plan = drain(a_fleet(hosts, guests), ["old"], None, always)
    assert targets(plan) == [("a", "devices"), ("b", "devices")]


def test_a_balance_fills_hosts_without_devices_first():
    large = {"total_usable_ram_mb": 8 * GB, "free_ram_mb": 8 * GB, "vcpus_total": 64}
    hosts = {"full": 8, "devices": large | {"pci_stats": devices(a_pool(1))}, "plain": 8}
    guests = [Guest(name, "full") for name in "abcdef"]
    fleet = a_fleet(hosts, guests)
    plan = balance(fleet, resource_load(fleet, "memory"), 0.1, Budget(), always)
    assert [host for _, host in targets(plan)][:2] == ["plain", "plain"]
    # It reaches its goal all the same, by no more moves.
    assert (plan.is_complete, len(plan.moves)) == (True, 4)
