# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What a plan for each goal takes, and what it comes to."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.figures import BOUND, OURS, Figure
from benchmarks.planning.fleets import a_fleet
from scheduler.hosts.resources import resources
from scheduler.objects.flavor_and_image import Flavor
from scheduler.objects.request_spec import RequestSpec
from scheduler.operators.planning.balancing import balance, resource_load
from scheduler.operators.planning.consolidation import consolidate, most_emptied
from scheduler.operators.planning.draining import drain
from scheduler.operators.planning.fleet import Fleet
from scheduler.operators.planning.make_room import make_room
from scheduler.operators.planning.repairing import repair
from scheduler.operators.planning.types import Budget, KeepGoing, MovePlan

SECONDS, MOVES, EMPTIED = "plan", "moves of a plan", "hosts emptied by consolidation"
DRAINED = 10
MARGIN = 0.1
# Of what is in use on a host that is over its limit, so much is allowed.
ALLOWED = 0.8
# Each of the instances that room is made for has so many vCPUs more than fit anywhere.
MORE, NUMBER = 2, 3
GB_PER_VCPU = 4
Make = Callable[[Fleet, KeepGoing], MovePlan]


@dataclass(frozen=True, slots=True)
class Extent:
    """A fleet, and the goals that are planned on it, with the seconds that a search may take."""

    hosts: int
    instances: int
    goals: Mapping[str, float]
    seed: int = 1

    @property
    def case(self) -> dict[str, int]:
        """What its figures have in common."""
        return {"hosts": self.hosts, "instances": self.instances}


def figures(extent: Extent) -> Iterator[Figure]:
    """Yield what each goal takes: every one is planned on the same fleet, as it was made."""
    for goal, seconds in extent.goals.items():
        fleet = a_fleet(extent.hosts, extent.instances, extent.seed)
        most = most_emptied(fleet)
        taken, plan = timed(fleet, GOALS[goal], seconds)
        case = {"goal": goal, **extent.case}
        yield Figure(SECONDS, OURS, "s", [taken], case, {"search ends after": seconds})
        yield Figure(MOVES, OURS, "", [len(plan.moves)], case, facts(plan))
        if "emptied" in plan.result:
            yield Figure(EMPTIED, OURS, "", [len(plan.result["emptied"])], extent.case)
            yield Figure(EMPTIED, BOUND, "", [most], extent.case)


def timed(fleet: Fleet, make: Make, seconds: float) -> tuple[float, MovePlan]:
    """Return the seconds that a plan takes, and the plan; its search ends after so many."""
    began = time.monotonic()
    plan = make(fleet, lambda: time.monotonic() - began < seconds)
    return time.monotonic() - began, plan


def facts(plan: MovePlan) -> dict[str, Any]:
    """Return what else is to be known of a plan; of lists, how many there are."""
    found: dict[str, Any] = {
        name: len(each) if isinstance(each, list) else each for name, each in plan.result.items()
    }
    found["unplanned"] = len(plan.unplanned)
    found["steps"] = len({each.turn for each in plan.moves})
    return found


def _drain(fleet: Fleet, keep_going: KeepGoing) -> MovePlan:
    names = sorted(fleet.hosts.get(row, "host") for row in fleet.hosts.rows())
    return drain(fleet, names[:DRAINED], None, keep_going)


def _consolidate(fleet: Fleet, keep_going: KeepGoing) -> MovePlan:
    return consolidate(fleet, Budget(), 0, keep_going)


def _balance(fleet: Fleet, keep_going: KeepGoing) -> MovePlan:
    return balance(fleet, resource_load(fleet, "memory"), MARGIN, Budget(), keep_going)


def _repair(fleet: Fleet, keep_going: KeepGoing) -> MovePlan:
    """Repair a fleet of which every tenth host is over its limit of memory."""
    hosts = fleet.hosts
    for row in [*hosts.rows()][::10]:
        total = hosts.get(row, "total_usable_ram_mb")
        used = total - hosts.get(row, "free_ram_mb")
        hosts.set(row, "ram_allocation_ratio", ALLOWED * used / total)
    return repair(fleet, keep_going)


def _make_room(fleet: Fleet, keep_going: KeepGoing) -> MovePlan:
    vcpus = largest_that_fits(fleet) + MORE
    flavor = Flavor(vcpus, 1024 * GB_PER_VCPU * vcpus, 0)
    return make_room(fleet, RequestSpec(flavor), NUMBER, keep_going)


def largest_that_fits(fleet: Fleet) -> int:
    """Return the vCPUs of the largest instance with 4 GB for each that some host has room for."""
    vcpus, memory, _ = resources(fleet.hosts)
    most = np.minimum(vcpus.free, memory.free // (1024 * GB_PER_VCPU))
    return int(most[[*fleet.hosts.rows()]].max())


GOALS: Mapping[str, Make] = {
    "drain": _drain,
    "repair": _repair,
    "consolidate": _consolidate,
    "balance": _balance,
    "make-room": _make_room,
}


def report(found: Sequence[Figure]) -> list[str]:
    """Return the figures as lines: one for each goal on each fleet."""
    moves = {str(each.case): each for each in found if each.what == MOVES}
    lines = [f"{'hosts':>6} {'instances':>9}  {'goal':12} {'s':>7} {'moves':>6}"]
    for each in found:
        if each.what == SECONDS:
            case, plan = each.case, moves[str(each.case)]
            said = ", ".join(f"{name} {_plain(one)}" for name, one in plan.facts.items())
            lines.append(
                f"{case['hosts']:6} {case['instances']:9}  {case['goal']:12} {each.median:7.2f}"
                f" {plan.median:6.0f}  {said}"
            )
    bounds = {str(each.case): each for each in found if (each.what, each.who) == (EMPTIED, BOUND)}
    for each in found:
        if (each.what, each.who) == (EMPTIED, OURS):
            most, case = bounds[str(each.case)].median, each.case
            lines.append(f"{case['hosts']:6} {EMPTIED} {each.median:.0f}, by volume {most:.0f}")
    return lines


def _plain(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
