# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Plans of moves keep what hosts hold for standbys and for reserved places."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from inventory.objects.standby import changed, held
from inventory.promises import Promises
from scheduler.operators.planning.balancing import balance, resource_load
from scheduler.operators.planning.consolidation import consolidate
from scheduler.operators.planning.draining import drain
from scheduler.operators.planning.failover import failure_domains, simulate
from scheduler.operators.planning.fleet import Fleet
from scheduler.operators.planning.make_room import make_room
from scheduler.operators.planning.repairing import repair
from scheduler.operators.planning.types import Budget, HeldStandby, PlannedMove
from tests.builders import a_group, a_request
from tests.fleets import GB, PLAN, Guest, a_fleet, places
from tests.hosts import an_aggregate

COLUMNS = ("vcpus_used", "free_ram_mb", "free_disk_mb")


class Protected(NamedTuple):
    """An instance of so many GB, its host, and the host of its standby, if it is protected."""

    name: str
    host: str
    standby: str
    gb: int = 4


def always() -> bool:
    return True


def a_protected_fleet(
    hosts: Mapping[str, int], racks: Mapping[str, str], guests: Sequence[Protected]
) -> Fleet:
    """Return a fleet of hosts of so many GB; those without a rack are domains for themselves."""
    made = {
        name: {
            **{"total_usable_ram_mb": gb * GB, "free_ram_mb": gb * GB, "vcpus_total": 64},
            "node_id": number,
            "aggregates": [an_aggregate(failure_domain=racks[name])] if name in racks else [],
        }
        for number, (name, gb) in enumerate(hosts.items(), 1)
    }
    fleet = a_fleet(made, [Guest(each.name, each.host, each.gb) for each in guests])
    table, sums = fleet.hosts, sums_of(guests, racks)
    table.promises = {
        made[name]["node_id"]: Promises(held(each), each) for name, each in sums.items()
    }
    for name, each in sums.items():
        vcpus, memory_mb, _ = held(each)
        row = table.row_of(name, name)
        table.add_to(row, {"vcpus_used": vcpus, "free_ram_mb": -memory_mb})
    for each in guests:
        if not each.standby:
            continue
        row = table.row_of(each.standby, each.standby)
        standby = HeldStandby(row, (domain_of(each.host, racks),), size_of(each))
        fleet.residents[each.name].standby = standby
    return Fleet(table, fleet.residents.values(), PLAN)


def size_of(guest):
    return 1, guest.gb * GB, 0


def domain_of(host, racks):
    return racks.get(host, f"host:{host}")


def sums_of(guests, racks):
    sums = {}
    for each in guests:
        if not each.standby:
            continue
        domain = domain_of(each.host, racks)
        sums[each.standby] = changed(sums.get(each.standby, {}), [domain], size_of(each))
    return sums


def test_none_moves_to_its_standby_nor_into_its_failure_domain():
    hosts = {"old": 8, "s1": 64, "s2": 64, "t": 16}
    racks = {"s1": "rack", "s2": "rack"}
    fleet = a_protected_fleet(hosts, racks, [Protected("a", "old", "s1")])
    assert drain(fleet, ["old"], None, always).is_complete
    assert places(fleet) == {"a": "t"}


def members(fleet, *names, most=1):
    """Let residents be members of a group that keeps apart."""
    group = a_group(members=[*names], rules={"max_server_per_host": most} if most > 1 else {})
    for name in names:
        fleet.residents[name].spec.instance_group = group
    return fleet


@pytest.mark.parametrize(("most", "target"), [(1, "t"), (2, "s")])
def test_no_plan_moves_a_member_to_the_standby_of_another_one(most, target):
    """The host of the standby would be preferred, as it has most room."""
    hosts = {"old": 8, "other": 8, "s": 64, "t": 16}
    guests = [Protected("a", "other", "s"), Protected("b", "old", "")]

    def fleet():
        return members(a_protected_fleet(hosts, {}, guests), "a", "b", most=most)

    drained = fleet()
    assert drain(drained, ["old"], None, always).is_complete
    assert places(drained)["b"] == target
    dead = fleet()
    dead.down[dead.hosts.row_of("old", "old")] = True
    dead.allow_evacuation([dead.hosts.row_of("old", "old")])
    assert repair(dead, always).is_complete
    assert places(dead)["b"] == target


def test_a_plan_says_that_only_the_standby_of_another_member_is_in_the_way():
    hosts = {"old": 8, "other": 8, "s": 64}
    guests = [Protected("a", "other", "s"), Protected("b", "old", "")]
    fleet = members(a_protected_fleet(hosts, {}, guests), "a", "b")
    plan = drain(fleet, ["old"], None, always)
    assert [each.uuid for each in plan.unplanned] == ["b"]
    assert places(fleet)["b"] == "old"
    # Where it is, the member is in nobody's way: the keeper moves standbys.
    assert repair(fleet, always).moves == []


def test_consolidation_and_balance_leave_members_and_standbys_apart():
    hosts = {"a1": 8, "b1": 8, "s": 32, "t": 32}
    guests = [Protected("a", "a1", "s", 2), Protected("b", "b1", "", 2), Protected("x", "s", "", 1)]
    fleet = members(a_protected_fleet(hosts, {}, guests), "a", "b")
    consolidate(fleet, Budget(), 1, always)
    assert places(fleet)["b"] != "s"
    assert places(fleet)["a"] != places(fleet)["b"]
    fleet = members(a_protected_fleet(hosts, {}, guests), "a", "b")
    balance(fleet, resource_load(fleet, "memory"), 0.0, Budget(), always)
    assert places(fleet)["b"] != "s"


@pytest.mark.parametrize(("free", "target"), [(8, "t"), (7, "u")])
def test_what_a_new_failure_domain_brings_has_to_have_room(free, target):
    """The standby of b is there, too: from t both would come at once."""
    hosts = {"old": 8, "s": free, "t": 64, "u": 16}
    guests = [Protected("a", "old", "s"), Protected("b", "t", "s")]
    fleet = a_protected_fleet(hosts, {}, guests)
    assert drain(fleet, ["old"], None, always).is_complete
    assert places(fleet)["a"] == target


def test_both_places_count_until_the_step_ends():
    guests = [Protected("a", "old", "s"), Protected("b", "old", "s")]
    fleet = a_protected_fleet({"old": 8, "s": 8, "t": 8}, {}, guests)
    free = []
    for change in (lambda: None, lambda: fleet.move(fleet.residents["a"], 2, ""), fleet.end_step):
        change()
        free.append(fleet.hosts.get(1, "free_ram_mb") // GB)
    assert free == [0, 0, 4]


def test_one_that_has_nowhere_to_go_says_so():
    hosts = {"old": 8, "s": 64}
    fleet = a_protected_fleet(hosts, {}, [Protected("a", "old", "s")])
    plan = drain(fleet, ["old"], None, always)
    assert [each.uuid for each in plan.unplanned] == ["a"]


def test_an_evacuation_takes_the_standby():
    """Nothing else is free on it, and the other host would weigh more."""
    guests = [Protected("a", "lost", "s")]
    fleet = a_protected_fleet({"lost": 8, "s": 4, "t": 64}, {}, guests)
    (domain,) = (each for each in failure_domains(fleet.hosts) if each.name == "lost")
    plan = simulate(fleet, domain, always)
    assert plan.is_complete
    assert places(fleet) == {"a": "s"}
    assert fleet.hosts.get(fleet.hosts.row_of("s", "s"), "free_ram_mb") == 0


def test_the_standby_of_a_place_stays_unless_the_host_is_lost():
    """A move may go to its host, as the standby does not move along."""
    fleet = a_protected_fleet({"old": 8, "s": 16}, {}, [Protected("a", "old", "s")])
    resident = fleet.residents["a"]
    resident.standby = standby = resident.standby._replace(of_place=True)
    assert (resident.standby_if(False), resident.standby_if(True)) == (None, standby)
    assert drain(fleet, ["old"], None, always).is_complete
    assert places(fleet) == {"a": "s"}
    # The instance and the standby of the place that it has left.
    assert fleet.hosts.get(1, "free_ram_mb") == 8 * GB


def test_the_standby_of_a_place_stays_where_its_instance_is_evacuated_elsewhere():
    fleet = a_protected_fleet({"lost": 8, "s": 8, "t": 64}, {}, [Protected("a", "lost", "s")])
    resident = fleet.residents["a"]
    resident.standby = resident.standby._replace(of_place=True)
    (domain,) = (each for each in failure_domains(fleet.hosts) if each.name == "lost")
    with fleet.losing(domain.rows):
        fleet.move(resident, fleet.hosts.row_of("t", "t"), "its host is lost")
    assert fleet.hosts.get(fleet.hosts.row_of("s", "s"), "free_ram_mb") == 4 * GB


def test_a_place_is_held_again_when_its_instance_leaves():
    fleet = a_fleet({"h1": 8, "h2": 8, "h3": 8}, [Guest("a", "h1", 6), Guest("b", "h2", 6)])
    spec = a_request(memory_mb=4 * GB, vcpus=1)
    assert make_room(fleet, spec, 2, always).result["fit"] == 2
    fleet = a_fleet({"h1": 8, "h2": 8, "h3": 6}, [Guest("a", "h1", 6), Guest("b", "h2", 6)])
    for each in fleet.residents.values():
        each.place = (1, 6 * GB, 0)
    plan = make_room(fleet, spec, 2, always)
    assert (plan.result["fit"], plan.moves) == (1, [])
    assert drain(fleet, ["h1"], None, always).moves == []


GOALS = {
    "drain": lambda fleet: drain(fleet, ["h0", "h1"], 1, always),
    "consolidate": lambda fleet: consolidate(fleet, Budget(), 0, always),
    "balance": lambda fleet: balance(fleet, resource_load(fleet, "memory"), 0.1, Budget(), always),
    "make-room": lambda fleet: make_room(fleet, a_request(memory_mb=12 * GB), 2, always),
    "repair": lambda fleet: repair(fleet, always),
}


@st.composite
def drawn(draw):
    """Return hosts, racks and protected instances whose standbys hold."""
    hosts = {f"h{number}": draw(st.sampled_from([16, 24])) for number in range(6)}
    racks = {name: draw(st.sampled_from("abc")) for name in hosts if draw(st.booleans())}
    guests: list[Protected] = []
    for number in range(draw(st.integers(1, 9))):
        host, standby = draw(st.permutations([*hosts]))[:2]
        one = Protected(f"i{number}", host, standby, draw(st.sampled_from([2, 4, 8])))
        if not broken(hosts, racks, [*guests, one], {}):
            guests.append(one)
    return hosts, racks, guests


def broken(hosts, racks, guests, moving):
    """Return what does not hold: moving has the further hosts of instances."""
    found = []
    there = [
        *guests,
        *(each._replace(host=moving[each.name]) for each in guests if each.name in moving),
    ]
    used = defaultdict(int)
    for each in there:
        used[each.host] += each.gb * GB
        if domain_of(each.host, racks) == domain_of(each.standby, racks):
            found.append(f"{each} fails together with its standby")
    for name, sums in sums_of(there, racks).items():
        used[name] += held(sums)[1]
    return found + [name for name in hosts if used[name] > hosts[name] * GB]


@given(drawn(), st.sampled_from([*GOALS]))
def test_every_standby_holds_at_each_moment_of_a_plan(found, goal):
    hosts, racks, guests = found
    fleet = a_protected_fleet(hosts, racks, guests)
    before = {name: getattr(fleet.hosts, name).copy() for name in COLUMNS}
    moves: Sequence[PlannedMove] = GOALS[goal](fleet).moves
    event(f"{goal}: {min(len(moves), 3)} moves")
    now = {each.name: each for each in guests}
    for _, listed in groupby(moves, key=lambda each: each.turn):
        step = {each.uuid: each.target.host for each in listed}
        assert broken(hosts, racks, now.values(), step) == []
        now |= {name: now[name]._replace(host=host) for name, host in step.items()}
        assert broken(hosts, racks, now.values(), {}) == []
    fleet.roll_back(0)
    for name, column in before.items():
        assert (getattr(fleet.hosts, name) == column).all()


def test_what_is_in_the_way_of_new_instances_is_named():
    guests = [Protected("a", "t", "s", 12)]
    fleet = a_protected_fleet({"s": 16, "t": 13, "u": 8}, {"t": "rack-3"}, guests)
    result = make_room(fleet, a_request(memory_mb=12 * GB, vcpus=1), 2, always).result
    assert (result["fit"], result["held"]) == (
        0,
        [{"host": "s", "for": "standbys of domain rack-3"}],
    )


def test_what_a_host_holds_that_is_emptied_is_named():
    fleet = a_protected_fleet({"s": 16, "t": 16}, {"t": "rack-3"}, [Protected("a", "t", "s")])
    held = drain(fleet, ["s"], None, always).result["held"]
    assert held == [{"host": "s", "for": "standbys of domain rack-3"}]


@pytest.mark.parametrize(
    ("v", "u", "b", "moves"), [(8, 11, 10, [("b", "u")]), (12, 2, 16, [])], ids=["room", "no room"]
)
def test_a_repair_makes_room_for_a_missing_standby_in_another_domain(v, u, b, moves):
    sizes = {"t": 16, "v": v, "s": 16, "u": u}
    made = {
        name: {
            **{"total_usable_ram_mb": gb * GB, "free_ram_mb": gb * GB, "vcpus_total": 64},
            "node_id": number,
            "aggregates": [an_aggregate(failure_domain="rack-3")] if name in "tv" else [],
        }
        for number, (name, gb) in enumerate(sizes.items(), 1)
    }
    fleet = a_fleet(made, [Guest("p", "t", 12), Guest("b", "s", b)])
    plan = repair(fleet, always, {"p": a_request(memory_mb=12 * GB, vcpus=1), "gone": a_request()})
    assert [(each.uuid, each.target.host) for each in plan.moves] == moves
    assert plan.result["room_for_standbys"] == (["p"] if moves else [])
