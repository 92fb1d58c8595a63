# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A decision from beginning to end: narrow, filter, weigh, pick, consume, for each instance.

Source: behaviour reference 3.2 to 3.8.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import NamedTuple

import numpy as np

from scheduler.decision import alternates, picker
from scheduler.decision.filtering import asked_for, asked_in_turn, filtered
from scheduler.decision.further import First, Further, following
from scheduler.decision.group_members import counted
from scheduler.decision.host_state import HostState, candidate
from scheduler.decision.host_table import HostTable, Mask
from scheduler.decision.interfaces import Filter, Rows, Weigher
from scheduler.decision.narrowing import narrowed, no_such_host
from scheduler.decision.outcome import (
    Candidate,
    Decision,
    Placement,
    Shortage,
    Step,
    WeighedHost,
)
from scheduler.decision.picker import Choice
from scheduler.decision.scaling import Weights
from scheduler.decision.weighing import Weighed, weighed
from scheduler.objects.request_spec import RequestSpec

# Nova's words. They reach tenants and stay as vague as they are there.
NOT_ENOUGH = "There are not enough hosts available."
# Of how many of the best hosts a decision keeps the weights, for the first instance; for others of
# the one that was chosen.
EXPLAINED = 5


@dataclass(frozen=True, slots=True)
class Plan:
    """How to decide: the plug-ins in their order and the rules of the choice among the best.

    request_filters look at a request as a whole: they are asked once, before the filters, and for
    forced hosts as well.
    """

    filters: Sequence[Filter] = ()
    weighers: Sequence[Weigher] = ()
    host_subset_size: int = 1
    shuffle_best: bool = False
    request_filters: Sequence[Filter] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """What to decide: one spec for all instances, their uuids, and how many alternates for each.

    seed makes a random choice repeatable; by_admin says that the caller is an administrator.
    choices are among how many equally good hosts one is drawn: more of them keep schedulers that
    decide at the same time out of each other's way. holds_alternates says that room is going to be
    held on alternates, so that there are no more of them than may be held.
    """

    spec: RequestSpec
    instance_uuids: Sequence[str | None]
    alternates: int = 0
    seed: int = 0
    by_admin: bool = False
    choices: int = 1
    holds_alternates: bool = False


class _Ranking(NamedTuple):
    """The hosts that are left: their rows with the weights of each."""

    candidates: Mask
    rows: Rows
    weighed: Weighed

    @property
    def totals(self) -> Weights:
        return self.weighed.totals


def decide(hosts: HostTable, request: Request, plan: Plan) -> Decision:
    """Return where all instances of a request go, or the shortage that prevents it.

    hosts is consumed, by what was placed before a shortage too: pass a working copy. A host refused
    for one instance is not asked again for the next ones, since it can only have become fuller.
    """
    choice = _choice(request, plan)
    group = request.spec.instance_group
    hosts.membership = counted(hosts, group) if group else None
    candidates, narrowing = allowed(hosts, request.spec, plan)
    placements: list[Placement] = []
    ranking: _Ranking | None = None
    further: Further | None = None
    for index, uuid in enumerate(request.instance_uuids):
        if further is not None:
            placement = further.place(uuid)
            if placement is not None:
                placements.append(placement)
                continue
            candidates, further = further.finish(), None
        spec = request.spec.for_instance(uuid, (each.chosen.host for each in placements))
        candidates, steps = filtered(hosts, spec, plan.filters, candidates, index)
        steps = (*narrowing, *steps)
        if not candidates.any():
            reason = no_such_host(hosts, spec) or refusal(spec, plan) or NOT_ENOUGH
            return _decision(hosts, request, shortage=Shortage(index, uuid, steps, reason))
        ranking = _ranked(hosts, spec, plan, candidates)
        position = choice.among(ranking.totals)
        placements.append(_placed(hosts, spec, ranking, position, steps))
        rules = _rules_after(index, request, plan)
        if rules is not None:
            first = First(placements[-1], spec, rules, ranking.rows, ranking.weighed, narrowing)
            further = following(hosts, first, choice)
    if further is not None and ranking is not None:
        ranking = ranking._replace(candidates=further.finish())
    return _decision(hosts, request, _with_alternates(hosts, request, plan, placements, ranking))


def refusal(spec: RequestSpec, plan: Plan) -> str | None:
    """Return in which words a request filter refuses all hosts, None where none does.

    A rebuild asks for nothing that the instance does not have.
    """
    if spec.is_rebuild:
        return None
    found = (each.refusal(spec) for each in plan.request_filters)
    return next(filter(None, found), None)


def _choice(request: Request, plan: Plan) -> Choice:
    chance = Random(request.seed)
    return Choice(chance, plan.host_subset_size, plan.shuffle_best, request.choices)


def _rules_after(index: int, request: Request, plan: Plan) -> list[Filter] | None:
    """Return the filters of all instances after this one, None where they differ or none is."""
    last = len(request.instance_uuids) - 1
    if index == last:
        return None
    rules = asked_for(plan.filters, request.spec, index + 1)
    return rules if rules == asked_for(plan.filters, request.spec, last) else None


def allowed(hosts: HostTable, spec: RequestSpec, plan: Plan) -> tuple[Mask, tuple[Step, ...]]:
    """Return the hosts that a request as a whole allows, and the steps that led there.

    These are what it says about hosts by name, and the request filters unless it is a rebuild.
    """
    candidates, narrowing = narrowed(hosts, spec)
    if spec.is_rebuild:
        return candidates, tuple(narrowing)
    candidates, steps = asked_in_turn(hosts, spec, plan.request_filters, candidates)
    # One that every host passes says nothing, and there are several of them in each decision.
    told = (step for step in steps if step.after < step.before)
    return candidates, (*narrowing, *told)


def _ranked(hosts: HostTable, spec: RequestSpec, plan: Plan, candidates: Mask) -> _Ranking:
    rows = np.flatnonzero(candidates)
    return _Ranking(candidates, rows, weighed(hosts, spec, plan.weighers, rows))


def _placed(
    hosts: HostTable,
    spec: RequestSpec,
    ranking: _Ranking,
    position: int,
    steps: tuple[Step, ...],
) -> Placement:
    """Take what the instance needs from the host that was picked."""
    chosen = _candidate(hosts, ranking, position)
    state = HostState.of(hosts, chosen.row)
    explained = _explained(hosts, ranking)
    taken = None if spec.is_rebuild else state.consume_from_request(spec)
    return Placement(spec.instance_uuid, chosen, steps, explained, taken=taken)


def _with_alternates(
    hosts: HostTable,
    request: Request,
    plan: Plan,
    placements: list[Placement],
    ranking: _Ranking | None,
) -> tuple[Placement, ...]:
    """Give each placement further hosts of its cell on which a failed build may be tried again.

    A single instance has the best of those among which it was chosen. For several, hosts are
    filtered and weighed once more. Hosts that were chosen do not count.
    """
    if ranking is None or not request.alternates or request.spec.is_rebuild:
        return tuple(placements)
    last = len(placements) - 1
    if last:
        taken = (each.chosen.host for each in placements)
        spec = request.spec.for_instance(placements[last].instance_uuid, taken)
        left, _ = filtered(hosts, spec, plan.filters, ranking.candidates, last)
        ranking = _ranked(hosts, spec, plan, left)
    rows = [each.chosen.row for each in placements]
    cells = hosts.codes("cell_uuid")
    spare = {
        cell: _best_of_cell(hosts, ranking, cell, rows, request.alternates)
        for cell in {*cells[rows].tolist()}
    }
    found = tuple(replace(each, alternates=spare[cells[each.chosen.row]]) for each in placements)
    if not request.holds_alternates:
        return found
    return alternates.held(found, hosts, request.spec, ranking.rows)


def _best_of_cell(
    hosts: HostTable, ranking: _Ranking, cell: int, chosen: list[int], count: int
) -> tuple[Candidate, ...]:
    """Return so many of the best hosts of a cell, given by its code, but for those chosen."""
    spare = hosts.codes("cell_uuid") == cell
    spare[chosen] = False
    positions = np.flatnonzero(spare[ranking.rows])
    best = positions[picker.best_first(ranking.totals[positions], count)]
    return tuple(_candidate(hosts, ranking, int(position)) for position in best)


def _decision(
    hosts: HostTable,
    request: Request,
    placements: tuple[Placement, ...] = (),
    shortage: Shortage | None = None,
) -> Decision:
    return Decision(placements, shortage, tuple(hosts.warnings), request.seed, len(hosts))


def _candidate(hosts: HostTable, ranking: _Ranking, position: int) -> Candidate:
    row = int(ranking.rows[position])
    return candidate(hosts, row, hosts.limits.on(row), float(ranking.totals[position]))


def _explained(hosts: HostTable, ranking: _Ranking) -> tuple[WeighedHost, ...]:
    best = np.array(picker.best_first(ranking.totals, EXPLAINED), np.int64)
    shares = {name: each.tolist() for name, each in ranking.weighed.shares(best).items()}
    return tuple(
        WeighedHost(
            hosts.get(row, "host"),
            hosts.get(row, "nodename"),
            total,
            {name: each[place] for name, each in shares.items()},
        )
        for place, (row, total) in enumerate(
            zip(ranking.rows[best].tolist(), ranking.totals[best].tolist(), strict=True)
        )
    )
