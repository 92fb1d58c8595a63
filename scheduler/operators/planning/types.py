# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The values of a plan: its moves, what they cost, and the instances without one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from inventory.objects.amounts import NOTHING, Amounts, amounts_of, plus
from scheduler.hosts.host_state import Consumption
from scheduler.objects.instance import Instance
from scheduler.objects.request_spec import RequestSpec

# How an instance moves, by how long it is away: not at all while its memory is copied, while its
# disk is copied, and as on the day it was built, since its host is down.
LIVE, COLD, EVACUATION = "live migration", "cold migration", "evacuation"
# Why an instance stays where it is unless an evacuation of its host was asked for.
HOST_IS_DOWN = (
    "is on a host that is down: only 'plan drain' with the name of the host, and 'plan repair',"
    " evacuate"
)
# Why it cannot be evacuated either: it is not, or not only, on its host.
MOVING = "is moving already"
NOT_BUILT = "has a claim but is not built yet"
NOT_EVACUATED = "Nova evacuates only instances that are active, stopped or in error"
# Says whether there is time to look for something better.
KeepGoing = Callable[[], bool]


class Place(NamedTuple):
    host: str
    node: str


class HeldStandby(NamedTuple):
    """The row that holds the standby of an instance, for the loss of which failure domains.

    That of a reserved place stays with the place when the instance leaves.
    """

    row: int
    domains: tuple[str, ...]
    size: Amounts
    of_place: bool = False


@dataclass(slots=True)
class Resident:
    """An instance on the host of a row, the request for it, and what it takes there.

    kind is how it moves unless its host is down. fixed says why it cannot be moved at present, None
    where it can. decided_by names the facts that the request was made from. place is what the
    reserved place that it has taken is going to hold again when it leaves. standby is its standby.
    """

    instance: Instance
    row: int
    spec: RequestSpec
    taken: Consumption
    kind: str = LIVE
    fixed: str | None = None
    decided_by: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    place: Amounts = NOTHING
    standby: HeldStandby | None = None

    @property
    def given_back(self) -> Consumption:
        if self.place is NOTHING:
            return self.taken
        vcpus, memory_mb, disk_mb = plus(amounts_of(self.taken), self.place, -1)
        return replace(self.taken, vcpus=vcpus, memory_mb=memory_mb, disk_mb=disk_mb)

    @property
    def uuid(self) -> str:
        return self.instance.uuid

    def standby_if(self, is_lost: bool) -> HeldStandby | None:
        """Return the standby that goes with the instance if its host is lost, or is not."""
        return None if self.standby and self.standby.of_place and not is_lost else self.standby

    @property
    def size_order(self) -> tuple[int, int, int, str]:
        """A sort key for the largest first, by memory, of which hosts over-commit the least."""
        spec = self.spec
        return -spec.memory_mb, -spec.vcpus, -spec.disk_mb, self.uuid


class Cost(NamedTuple):
    """How many moves, and the MB of memory that they copy."""

    moves: int
    memory_mb: int

    def plus(self, other: "Cost", times: int = 1) -> "Cost":
        return Cost(self.moves + times * other.moves, self.memory_mb + times * other.memory_mb)


def cost_of(residents: Sequence[Resident]) -> Cost:
    return Cost(len(residents), sum(each.spec.memory_mb for each in residents))


@dataclass(frozen=True, slots=True)
class Budget:
    """How many moves a plan may have, and how many MB of memory they may copy; None for any."""

    moves: int | None = None
    memory_mb: int | None = None

    def has(self, cost: Cost) -> bool:
        within = self.moves is None or cost.moves <= self.moves
        return within and (self.memory_mb is None or cost.memory_mb <= self.memory_mb)


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """A move of one instance, in MB of memory and disk.

    Moves of the same step may run side by side: each fits while all others of the step take room on
    both of their hosts. Steps of one stage follow each other; a stage ends when hosts are empty.
    """

    uuid: str
    source: Place
    target: Place
    memory_mb: int
    disk_mb: int
    kind: str
    reason: str
    stage: int = 1
    step: int = 1

    @property
    def turn(self) -> tuple[int, int]:
        """When it is made: a key by which the moves of one step are equal, and steps follow."""
        return self.stage, self.step


@dataclass(frozen=True, slots=True)
class Unplanned:
    """An instance for which the goal wants a move that is not possible, and why.

    limits count the hosts by the first filter that refuses them; nearest are (host, filter, reason)
    of those few that the fewest filters refuse.
    """

    uuid: str
    place: Place
    why: str
    limits: Sequence[tuple[str, int]] = ()
    nearest: Sequence[tuple[str, str, str]] = ()


@dataclass(frozen=True, slots=True)
class MovePlan:
    """What a goal takes: the moves in their order, and what they do not reach.

    result has what the goal is measured by, by name.
    """

    goal: str
    moves: Sequence[PlannedMove]
    unplanned: Sequence[Unplanned] = ()
    result: dict[str, Any] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        return not self.unplanned and bool(self.result.get("reached", True))
