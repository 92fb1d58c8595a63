# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A decision from beginning to end: narrow, filter, weigh, pick, consume, for each instance.

Source: behaviour reference 3.2 to 3.8.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
import numpy.typing as npt

from scheduler.decision import picker
from scheduler.decision.host_state import HostState
from scheduler.decision.host_table import HostTable, Mask
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
from scheduler.filters import BaseHostFilter
from scheduler.objects.request_spec import RequestSpec
from scheduler.weighers import BaseHostWeigher, weighed

# Of how many of the best hosts a decision keeps the weights.
EXPLAINED = 5


@dataclass(frozen=True, slots=True)
class Plan:
    """How to decide: the plug-ins in their order and the rules of the choice among the best."""

    filters: Sequence[BaseHostFilter] = ()
    weighers: Sequence[BaseHostWeigher] = ()
    host_subset_size: int = 1
    shuffle_best: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """What to decide: one spec for all instances, their uuids, and how many alternates for each.

    seed makes a random choice repeatable.
    """

    spec: RequestSpec
    instance_uuids: Sequence[str | None]
    alternates: int = 0
    seed: int = 0


def decide(hosts: HostTable, request: Request, plan: Plan) -> Decision:
    """Return where all instances of a request go, or the shortage that prevents it.

    hosts is consumed: pass a working copy. A host refused for one instance is not asked again for
    the next ones, since it can only have become fuller.
    """
    chance = Random(request.seed)
    candidates, narrowing = narrowed(hosts, request.spec)
    placements: list[Placement] = []
    taken: list[str] = []
    rows: npt.NDArray[np.int64] = np.zeros(0, np.int64)
    totals: Weights = np.zeros(0)
    for index, uuid in enumerate(request.instance_uuids):
        spec = request.spec.for_instance(uuid, taken)
        candidates, steps = filtered(hosts, spec, plan.filters, candidates, index)
        steps = (*narrowing, *steps)
        rows = np.flatnonzero(candidates)
        if not len(rows):
            reason = {"reason": no_such} if (no_such := no_such_host(hosts, spec)) else {}
            shortage = Shortage(index, uuid, steps, **reason)
            return _decision(hosts, request, shortage=shortage)
        totals, shares = weighed(hosts, spec, plan.weighers, rows)
        position = picker.pick(totals, plan.host_subset_size, plan.shuffle_best, chance)
        state = HostState.of(hosts, int(rows[position]))
        chosen = _candidate(state, float(totals[position]))
        explained = _explained(hosts, rows, totals, shares)
        if not spec.is_rebuild:
            state.consume_from_request(spec)
        taken.append(chosen.host)
        placements.append(Placement(uuid, chosen, steps, explained))
    return _decision(hosts, request, _with_alternates(hosts, request, plan, placements, candidates))


def filtered(
    hosts: HostTable,
    spec: RequestSpec,
    filters: Sequence[BaseHostFilter],
    candidates: Mask,
    index: int = 0,
) -> tuple[Mask, tuple[Step, ...]]:
    """Return the candidates that pass all filters, and a step per filter that was asked.

    A forced host is not asked any filter, and a rebuild only those that concern the image.
    """
    steps: list[Step] = []
    if spec.has_forced_target and not spec.is_rebuild:
        return candidates, ()
    left = int(np.count_nonzero(candidates))
    for each in filters:
        if not each.run_filter_for_index(index) or (spec.is_rebuild and not each.RUN_ON_REBUILD):
            continue
        before = left
        if each.applies(spec):
            hosts.candidates = candidates
            candidates = candidates & each.mask(hosts, spec)
            left = int(np.count_nonzero(candidates))
        steps.append(Step(each.name, before, left))
        if not left:
            break
    return candidates, tuple(steps)


def explain(
    hosts: HostTable, spec: RequestSpec, filters: Sequence[BaseHostFilter], most: int
) -> list[Refusal]:
    """Return why hosts are refused, every reason of every host, for at most that many hosts."""
    refusals: list[Refusal] = []
    hosts.candidates = hosts.present
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
    rows: npt.NDArray[np.int64],
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
