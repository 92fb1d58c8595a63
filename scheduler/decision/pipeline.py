# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A decision from beginning to end: narrow, filter, weigh, pick, consume, for each instance.

Source: behaviour reference 3.2 to 3.8.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from scheduler.decision import picker
from scheduler.decision.host_state import HostState
from scheduler.decision.host_table import HostTable, Mask
from scheduler.decision.interfaces import Filter, Rows, Weigher
from scheduler.decision.narrowing import narrowed, no_such_host
from scheduler.decision.outcome import (
    Candidate,
    Decision,
    Placement,
    Refusal,
    Shortage,
    Step,
    WeighedHost,
)
from scheduler.decision.scaling import Weights
from scheduler.decision.weighing import weighed
from scheduler.objects.request_spec import RequestSpec

# Nova's words. They reach tenants and stay as vague as they are there.
NOT_ENOUGH = "There are not enough hosts available."
# Of how many of the best hosts a decision keeps the weights.
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
    """

    spec: RequestSpec
    instance_uuids: Sequence[str | None]
    alternates: int = 0
    seed: int = 0
    by_admin: bool = False


def decide(hosts: HostTable, request: Request, plan: Plan) -> Decision:
    """Return where all instances of a request go, or the shortage that prevents it.

    hosts is consumed: pass a working copy. A host refused for one instance is not asked again for
    the next ones, since it can only have become fuller.
    """
    chance = Random(request.seed)
    candidates, narrowing = allowed(hosts, request.spec, plan)
    placements: list[Placement] = []
    for index, uuid in enumerate(request.instance_uuids):
        spec = request.spec.for_instance(uuid, (each.chosen.host for each in placements))
        candidates, steps = filtered(hosts, spec, plan.filters, candidates, index)
        steps = (*narrowing, *steps)
        if not candidates.any():
            reason = no_such_host(hosts, spec) or NOT_ENOUGH
            return _decision(hosts, request, shortage=Shortage(index, uuid, steps, reason))
        placements.append(_placed(hosts, spec, plan, candidates, steps, chance))
    return _decision(hosts, request, _with_alternates(hosts, request, plan, placements, candidates))


def allowed(hosts: HostTable, spec: RequestSpec, plan: Plan) -> tuple[Mask, tuple[Step, ...]]:
    """Return the hosts that a request as a whole allows, and the steps that led there.

    These are what it says about hosts by name, and the request filters unless it is a rebuild.
    """
    candidates, narrowing = narrowed(hosts, spec)
    if spec.is_rebuild:
        return candidates, tuple(narrowing)
    candidates, steps = _asked(hosts, spec, plan.request_filters, candidates)
    # One that every host passes says nothing, and there are several of them in each decision.
    told = (step for step in steps if step.after < step.before)
    return candidates, (*narrowing, *told)


def _placed(
    hosts: HostTable,
    spec: RequestSpec,
    plan: Plan,
    candidates: Mask,
    steps: tuple[Step, ...],
    chance: Random,
) -> Placement:
    """Choose among the candidates and take what the instance needs from the chosen one."""
    rows = np.flatnonzero(candidates)
    totals, shares = weighed(hosts, spec, plan.weighers, rows)
    position = picker.pick(totals, plan.host_subset_size, plan.shuffle_best, chance)
    state = HostState.of(hosts, int(rows[position]))
    chosen = _candidate(state, float(totals[position]))
    explained = _explained(hosts, rows, totals, shares)
    if not spec.is_rebuild:
        state.consume_from_request(spec)
    return Placement(spec.instance_uuid, chosen, steps, explained)


def filtered(
    hosts: HostTable,
    spec: RequestSpec,
    filters: Sequence[Filter],
    candidates: Mask,
    index: int = 0,
) -> tuple[Mask, tuple[Step, ...]]:
    """Return the candidates that pass all filters, and a step per filter that was asked.

    A forced host is not asked any filter, and a rebuild only those that concern the image.
    """
    if spec.is_rebuild:
        filters = [each for each in filters if each.RUN_ON_REBUILD]
    elif spec.has_forced_target:
        return candidates, ()
    filters = [each for each in filters if each.run_filter_for_index(index)]
    return _asked(hosts, spec, filters, candidates)


def _asked(
    hosts: HostTable, spec: RequestSpec, filters: Sequence[Filter], candidates: Mask
) -> tuple[Mask, tuple[Step, ...]]:
    steps: list[Step] = []
    left = int(np.count_nonzero(candidates))
    for each in filters:
        before = left
        if each.applies(spec):
            hosts.candidates = candidates
            candidates = candidates & each.mask(hosts, spec)
            left = int(np.count_nonzero(candidates))
        steps.append(Step(each.name, before, left))
        if not left:
            break
    return candidates, tuple(steps)


def explain(hosts: HostTable, spec: RequestSpec, plan: Plan, most: int) -> list[Refusal]:
    """Return why hosts are refused, every reason of every host, for at most that many hosts."""
    refusals: list[Refusal] = []
    hosts.candidates = hosts.present
    filters = (*plan.request_filters, *plan.filters)
    masks = [(each, each.mask(hosts, spec)) for each in filters if each.applies(spec)]
    for row in sorted(hosts.rows())[:most]:
        state = HostState.of(hosts, row)
        refusals += [
            Refusal(state.host, state.nodename, each.name, each.reason(state, spec))
            for each, mask in masks
            if not mask[row]
        ]
    return refusals


def _with_alternates(
    hosts: HostTable,
    request: Request,
    plan: Plan,
    placements: list[Placement],
    candidates: Mask,
) -> tuple[Placement, ...]:
    """Give each placement further hosts of its cell on which a failed build may be tried again.

    They are found for one more instance after the last, and hosts that were chosen do not count.
    """
    if not request.alternates or request.spec.is_rebuild:
        return tuple(placements)
    last = len(request.instance_uuids) - 1
    spec = request.spec.for_instance(request.instance_uuids[last])
    candidates = candidates.copy()
    candidates[[placement.chosen.row for placement in placements]] = False
    if last:
        candidates, _ = filtered(hosts, spec, plan.filters, candidates, last)
    rows = np.flatnonzero(candidates)
    if not len(rows):
        return tuple(placements)
    totals, _ = weighed(hosts, spec, plan.weighers, rows)
    cells = {placement.chosen.cell_uuid for placement in placements}
    # All hosts are of one cell as a rule; with several, more are looked at to fill each's share.
    wanted = request.alternates if len(cells) == 1 else len(rows)
    pool = [
        _candidate(HostState.of(hosts, int(rows[position])), float(totals[position]))
        for position in picker.best_first(totals, wanted)
    ]
    return tuple(
        Placement(
            placement.instance_uuid,
            placement.chosen,
            placement.steps,
            placement.weighed,
            tuple(each for each in pool if each.cell_uuid == placement.chosen.cell_uuid)[
                : request.alternates
            ],
        )
        for placement in placements
    )


def _decision(
    hosts: HostTable,
    request: Request,
    placements: tuple[Placement, ...] = (),
    shortage: Shortage | None = None,
) -> Decision:
    return Decision(placements, shortage, tuple(hosts.warnings), request.seed, len(hosts))


def _candidate(state: HostState, weight: float) -> Candidate:
    return Candidate(
        state.row,
        state.host,
        state.nodename,
        state.uuid,
        state.cell_uuid,
        dict(state.limits),
        weight,
    )


def _explained(
    hosts: HostTable,
    rows: Rows,
    totals: Weights,
    shares: dict[str, Weights],
) -> tuple[WeighedHost, ...]:
    return tuple(
        WeighedHost(
            hosts.get(int(rows[position]), "host"),
            hosts.get(int(rows[position]), "nodename"),
            float(totals[position]),
            {name: float(share[position]) for name, share in shares.items()},
        )
        for position in picker.best_first(totals, EXPLAINED)
    )
