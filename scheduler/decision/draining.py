# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Where the instances of hosts that are to be emptied would go."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from scheduler.decision.capacity import Means
from scheduler.decision.host_table import HostTable
from scheduler.decision.outcome import Candidate, Refusal
from scheduler.decision.pipeline import Plan, Request
from scheduler.decision.refusing import limits, refusals
from scheduler.objects.instance_group import TOGETHER, InstanceGroup
from scheduler.objects.request_spec import RequestSpec

# How many of the hosts that would be the first to fit are named.
NEAREST = 3


@dataclass(frozen=True, slots=True)
class Leaving:
    """An instance that is to leave the row of a host; spec is what it asks for elsewhere."""

    spec: RequestSpec
    row: int

    @property
    def uuid(self) -> str:
        return self.spec.instance_uuid or ""

    @property
    def size(self) -> tuple[int, int, int]:
        """What it takes, memory first: of that hosts give the least away twice."""
        return self.spec.memory_mb, self.spec.vcpus, self.spec.disk_mb


@dataclass(frozen=True, slots=True)
class Move:
    """Where an instance would go; without a target, why no host takes it.

    only_together says that there is no host for it while the other members of its server group are
    where they are now: it belongs with them, and they are to leave as well.

    limits say which filter is the first to refuse it, and on how many hosts. nearest are all
    reasons of those few hosts that the fewest filters refuse.
    """

    leaving: Leaving
    target: Candidate | None = None
    limits: Sequence[tuple[str, int]] = ()
    nearest: Sequence[Refusal] = ()
    only_together: bool = False


def drained(
    hosts: HostTable, leaving: Iterable[Leaving], emptied: Iterable[str], means: Means
) -> list[Move]:
    """Return where each instance would go, the largest first, in the order in which they go.

    The largest fit on the fewest hosts; small ones fill what is left. hosts is a working copy that
    is consumed; those that are to be emptied, by their names, take nothing. Members of a server
    group see those that have gone before them and those that stay, not those that are still to go.
    """
    order = sorted(leaving, key=lambda each: (*(-amount for amount in each.size), each.uuid))
    names = sorted(emptied)
    bound = {each.uuid for each in order if _is_bound(hosts, each, names, means)}
    moves = [_moved(hosts, each, names, means, number) for number, each in enumerate(order)]
    return [
        replace(each, only_together=each.target is not None and each.leaving.uuid in bound)
        for each in moves
    ]


def _is_bound(hosts: HostTable, leaving: Leaving, emptied: list[str], means: Means) -> bool:
    """Return whether it is refused if it is the first to go, since others are still there."""
    group = leaving.spec.instance_group
    if group is None or group.policy != TOGETHER:
        return False
    spec = leaving.spec.for_instance(leaving.uuid)
    spec.ignore_hosts = emptied
    spec.instance_group = _where_it_is(hosts, group, but=leaving.uuid)
    decision = means.decide(hosts.working_copy(), Request(spec, [leaving.uuid]))
    return not decision.placements


def _moved(
    hosts: HostTable, leaving: Leaving, emptied: list[str], means: Means, number: int
) -> Move:
    spec = leaving.spec.for_instance(leaving.uuid)
    spec.ignore_hosts = emptied
    if spec.instance_group is not None:
        spec.instance_group = _where_it_is(hosts, spec.instance_group, emptied=emptied)
    decision = means.decide(hosts, Request(spec, [leaving.uuid], seed=number))
    means.tell(number + 1)
    if decision.placements:
        return Move(leaving, decision.placements[0].chosen)
    return _refused(hosts, Move(leaving), spec, means.plan)


def _where_it_is(
    hosts: HostTable, group: InstanceGroup, emptied: Collection[str] = (), but: str | None = None
) -> InstanceGroup:
    """Return a group with the hosts of its members by now: some hosts or a member left out."""
    rows = hosts.residents.rows_of_each([each for each in group.members if each != but])
    names = {hosts.get(row, "host") for row in rows}
    found = group.with_hosts()
    found.hosts = sorted(names.difference(emptied))
    return found


def _refused(hosts: HostTable, move: Move, spec: RequestSpec, plan: Plan) -> Move:
    """Return a move that cannot be made, with the reasons."""
    found = [each for each in refusals(hosts, spec, plan).values() if each]
    found.sort(key=lambda each: (len(each), each[0].host, each[0].nodename))
    near = [each for refused in found[:NEAREST] for each in refused]
    return replace(move, limits=limits(found), nearest=near)
