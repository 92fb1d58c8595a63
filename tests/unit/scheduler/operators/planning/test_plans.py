# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Properties of all plans: each move is possible in its turn, and none is in vain."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hypothesis import event, given
from hypothesis import strategies as st

from scheduler.objects.flavor_and_image import Flavor
from scheduler.objects.request_spec import RequestSpec
from scheduler.operators.planning.balancing import balance, resource_load
from scheduler.operators.planning.consolidation import consolidate
from scheduler.operators.planning.draining import drain
from scheduler.operators.planning.fleet import Fleet
from scheduler.operators.planning.make_room import make_room
from scheduler.operators.planning.repairing import broken_rules, repair
from scheduler.operators.planning.types import Budget, MovePlan
from tests.fleets import GB, Guest, a_fleet, places
from tests.unit.scheduler.operators.planning.followed import fewest, follow


def always() -> bool:
    return True


@dataclass(frozen=True)
class Drawn:
    """Hosts and instances, from which the same fleet is made again and again."""

    hosts: Mapping[str, int]
    guests: tuple[Guest, ...]
    groups: Mapping[str, tuple[str, ...]]

    def fleet(self) -> Fleet:
        return a_fleet(self.hosts, self.guests, self.groups)


@st.composite
def drawn(draw, hosts=3, guests=5, overfull=False) -> Drawn:
    """Draw small hosts, and instances that fit there or, if they may be overfull, not all do."""
    sizes = draw(st.lists(st.integers(3, 8), min_size=2, max_size=hosts))
    names = [f"h{n}" for n in range(len(sizes))]
    free = dict(zip(names, sizes, strict=True))
    found = []
    for number in range(draw(st.integers(1, guests))):
        gb, host = draw(st.integers(1, 4)), draw(st.sampled_from(names))
        if overfull or free[host] >= gb:
            free[host] -= gb
            found.append(Guest(f"i{number}", host, gb))
    groups: dict[str, tuple[str, ...]] = {}
    for policy in draw(st.sets(st.sampled_from(["anti-affinity", "affinity"]), max_size=1)):
        members = tuple(each.name for each in found[:3])
        places = [each.host for each in found[:3]]
        apart, together = len({*places}) == len(places), len({*places}) <= 1
        if overfull or (apart if policy == "anti-affinity" else together):
            groups[policy] = members
    return Drawn(dict(zip(names, sizes, strict=True)), tuple(found), groups)


GOALS: dict[str, Callable[[Fleet], MovePlan]] = {
    "drain": lambda fleet: drain(fleet, ["h0"], None, always),
    "drain by turns": lambda fleet: drain(
        fleet, [fleet.place(row).host for row in fleet.hosts.rows()], 1, always
    ),
    "repair": lambda fleet: repair(fleet, always),
    "consolidate": lambda fleet: consolidate(fleet, Budget(), 0, always),
    "balance": lambda fleet: balance(fleet, resource_load(fleet, "memory"), 0.1, Budget(), always),
    "make room": lambda fleet: make_room(fleet, a_spec(3), 2, always),
}


def a_spec(gb: int) -> RequestSpec:
    return RequestSpec(Flavor(1, gb * GB, 0))


@given(drawn(hosts=5, guests=12), st.sampled_from([*GOALS]), st.integers(0, 99))
def test_each_move_is_possible_in_its_turn_and_breaks_no_rule(fleet, goal, seed):
    plan = GOALS[goal](fleet.fleet())
    followed = fleet.fleet()
    follow(followed, plan.moves, seed)
    event(f"{goal}: {len(plan.moves)} moves")


@given(drawn(hosts=4, guests=8, overfull=True), st.integers(0, 99))
def test_a_repair_breaks_nothing_else(fleet, seed):
    planned = fleet.fleet()
    plan = GOALS["repair"](planned)
    followed = fleet.fleet()
    follow(followed, plan.moves, seed)
    assert places(followed) == places(planned)
    left = {*broken_rules(followed, followed.residents.values())}
    assert plan.unplanned or not left
    event(f"{len(plan.moves)} moves, {len(left)} left")


@given(drawn(overfull=True))
def test_a_repair_takes_the_fewest_moves(fleet):
    plan = GOALS["repair"](fleet.fleet())
    best = fewest(
        fleet.fleet(), lambda each: not broken_rules(each, each.residents.values()), most=4
    )
    if plan.is_complete and best is not None:
        event(f"{best} moves")
        assert len(plan.moves) == best


@given(drawn(), st.integers(2, 6))
def test_room_is_made_by_the_fewest_moves(fleet, gb):
    plan = make_room(fleet.fleet(), a_spec(gb), 1, always)
    best = fewest(fleet.fleet(), lambda each: bool(each.passing(a_spec(gb))[1].any()))
    event(f"{best} moves")
    assert (plan.is_complete, len(plan.moves)) == (best is not None, best or 0)


@given(drawn())
def test_as_many_hosts_are_emptied_as_can_be(fleet):
    plan = GOALS["consolidate"](fleet.fleet())

    def reached(number: int) -> int | None:
        return fewest(fleet.fleet(), lambda each: len({*places(each).values()}) <= number)

    occupied = len({each.host for each in fleet.guests})
    after = occupied - len(plan.result["emptied"])
    event(f"{occupied} hosts to {after}")
    best = reached(after)
    assert best is not None
    assert len(plan.moves) >= best


@given(drawn())
def test_a_host_is_emptied_with_one_move_for_each_instance_and_those_that_make_room(fleet):
    plan = GOALS["drain"](fleet.fleet())
    best = fewest(fleet.fleet(), lambda each: "h0" not in places(each).values())
    event(f"{best} moves")
    if plan.is_complete:
        assert len(plan.moves) == best


def test_an_instance_moves_once_in_a_step():
    fleet = a_fleet({"h0": 4, "h1": 4, "h2": 4}, [Guest("a", "h0", 4)])
    for row in (1, 2):
        fleet.move(fleet.residents["a"], row, "")
    assert [each.step for each in fleet.moves] == [1, 2]
    fleet.roll_back(0)
    assert places(fleet) == {"a": "h0"}
