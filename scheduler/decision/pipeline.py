# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A decision from beginning to end: prefilter, filter, weigh, pick, consume, for each instance.

Source: behaviour reference 3.2 to 3.8.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from scheduler.decision.alternates import add_alternates, limit_alternates
from scheduler.decision.batch_placement import BatchPlacer, FirstPlacement, batch_placer
from scheduler.decision.equivalence_class import CachedScores, Questions
from scheduler.decision.incremental_ranking import IncrementalRanking
from scheduler.decision.picker import Choice
from scheduler.decision.plugin_calls import applies, ask_plugin, passing
from scheduler.decision.prefilter import no_such_host, prefilter
from scheduler.decision.types import Decision, Placement, PlacementFailure, Step, WeighedHost
from scheduler.decision.weighing import Ranking, weigh_hosts
from scheduler.filters import BaseHostFilter
from scheduler.hosts.columns import Mask
from scheduler.hosts.host_state import HostState
from scheduler.hosts.row_index import count_members
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec
from scheduler.weighers import BaseHostWeigher

# Nova's words. Tenants read them, and they are as vague as there.
NOT_ENOUGH = "There are not enough hosts available."
# How many of the best hosts have their weights in the decision, for the first instance; for
# further instances the chosen host alone.
EXPLAINED = 5


@dataclass(frozen=True, slots=True)
class Plan:
    """How to decide: the plug-ins in their order and the rules of the choice among the best.

    request_filters judge a request as a whole: once, before the filters, and for forced hosts too.
    """

    filters: Sequence[BaseHostFilter] = ()
    weighers: Sequence[BaseHostWeigher] = ()
    host_subset_size: int = 1
    shuffle_best: bool = False
    request_filters: Sequence[BaseHostFilter] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """What to decide: one spec for all instances, their uuids, and how many alternates for each.

    seed makes a random choice repeatable; by_admin is set for administrators. choices is among how
    many equally good hosts one is drawn, so that schedulers that decide at the same time choose
    different ones. With holds_alternates, resources are going to be held on alternates, and there
    are only as many as may be held.
    """

    spec: RequestSpec
    instance_uuids: Sequence[str | None]
    alternates: int = 0
    seed: int = 0
    by_admin: bool = False
    choices: int = 1
    holds_alternates: bool = False


def decide(hosts: HostTable, request: Request, plan: Plan) -> Decision:
    """Return where all instances of a request go, or the failure.

    hosts is consumed, also by what was placed before a failure: pass a working copy. A host refused
    for one instance is no candidate for the next ones, since it can only have become fuller.
    """
    choice = Choice(Random(request.seed), plan.host_subset_size, plan.shuffle_best, request.choices)
    group = request.spec.instance_group
    hosts.group_counts = count_members(hosts, group) if group else None
    candidates, first_steps = allowed(hosts, request.spec, plan)
    scores = CachedScores(hosts, _questions(request.spec, plan, choice), candidates)
    known = scores.find()
    placements: list[Placement] = []
    ranking: Ranking | IncrementalRanking | None = None
    batch: BatchPlacer | None = None
    for index, uuid in enumerate(request.instance_uuids):
        if batch is not None:
            placement = batch.place(uuid)
            if placement is not None:
                placements.append(placement)
                continue
            batch.finish()
            candidates, batch = batch.candidates(), None
        spec = request.spec.for_instance(uuid, (each.chosen.host for each in placements))
        # Cached scores are those for the first instance; a placer follows them from there.
        known = known if index == 0 else None
        if known is not None:
            steps, ranking = known.steps, known.ranking
        else:
            candidates, steps = filter_hosts(hosts, spec, plan.filters, candidates, index)
            if not candidates.any():
                steps = (*first_steps, *steps)
                reason = no_such_host(hosts, spec) or refusal(spec, plan) or NOT_ENOUGH
                return refused(hosts, request, steps, reason, index)
            ranking = weigh_hosts(hosts, spec, plan.weighers, np.flatnonzero(candidates))
            if index == 0 and (known := scores.note(steps, ranking)) is not None:
                ranking = known.ranking
        steps = (*first_steps, *steps)
        placements.append(_place(hosts, spec, ranking, ranking.choose(choice), steps))
        if (rules := _rules_after(index, request, plan)) is not None:
            first = FirstPlacement(placements[-1], spec, rules, first_steps)
            if known is not None:
                batch = known.placer(hosts, first, choice)
            elif isinstance(ranking, Ranking):
                batch = batch_placer(hosts, first, ranking, choice)
    if batch is not None:
        batch.finish()
    if ranking is not None and request.alternates and not request.spec.is_rebuild:
        # Of members of a group the limits may differ now.
        if batch is not None and not batch.is_lost and group is None:
            ranking = batch.ranking
        elif len(placements) > 1:
            ranking = _weigh_again(hosts, request, plan, placements, candidates)
        placements = _with_alternates(hosts, request, placements, ranking)
    if known is not None:
        if batch is None:
            first = FirstPlacement(placements[0], request.spec, known.rules, first_steps)
            batch = known.placer(hosts, first, choice)
        scores.keep(known, batch)
    return placed(hosts, request, placements)


def placed(hosts: HostTable, request: Request, placements: Sequence[Placement]) -> Decision:
    """Return the decision that places all instances."""
    return Decision(tuple(placements), None, tuple(hosts.warnings), request.seed, len(hosts))


def refused(
    hosts: HostTable, request: Request, steps: Sequence[Step], reason: str, index: int = 0
) -> Decision:
    """Return the decision that no host was left for the instance at this place of the request."""
    failure = PlacementFailure(index, request.instance_uuids[index], tuple(steps), reason)
    return Decision((), failure, tuple(hosts.warnings), request.seed, len(hosts))


def refusal(spec: RequestSpec, plan: Plan) -> str | None:
    """Return the words in which a request filter refuses all hosts, None where none does.

    A rebuild requests nothing that the instance does not have.
    """
    if spec.is_rebuild:
        return None
    found = (each.refusal(spec) for each in plan.request_filters)
    return next(filter(None, found), None)


def allowed(hosts: HostTable, spec: RequestSpec, plan: Plan) -> tuple[Mask, tuple[Step, ...]]:
    """Return the hosts that a request as a whole allows, and the steps.

    These are the rules about hosts by name, and the request filters unless it is a rebuild.
    """
    candidates, named = prefilter(hosts, spec)
    if spec.is_rebuild:
        return candidates, tuple(named)
    candidates, steps = apply_filters(hosts, spec, plan.request_filters, candidates)
    # Steps of request filters that refuse no host would stand in each decision.
    return candidates, (*named, *(step for step in steps if step.after < step.before))


def filter_hosts(
    hosts: HostTable,
    spec: RequestSpec,
    filters: Sequence[BaseHostFilter],
    candidates: Mask,
    index: int = 0,
) -> tuple[Mask, tuple[Step, ...]]:
    """Return the candidates that pass all filters for the instance at this place, and the steps."""
    return apply_filters(hosts, spec, filters_for(filters, spec, index), candidates)


def filters_for(
    filters: Sequence[BaseHostFilter], spec: RequestSpec, index: int
) -> list[BaseHostFilter]:
    """Return the filters that are applied for the instance at this place of a request.

    None is for a forced host; for a rebuild only those that concern the image.
    """
    if spec.is_rebuild:
        filters = [each for each in filters if each.RUN_ON_REBUILD]
    elif spec.has_forced_target:
        filters = ()
    return [each for each in filters if ask_plugin(each.run_filter_for_index, index, default=True)]


def apply_filters(
    hosts: HostTable, spec: RequestSpec, filters: Sequence[BaseHostFilter], candidates: Mask
) -> tuple[Mask, tuple[Step, ...]]:
    """Return the candidates that pass these filters, and a step for each until none is left."""
    steps: list[Step] = []
    left = int(np.count_nonzero(candidates))
    for each in filters:
        before = left
        if applies(each, spec):
            hosts.candidates = candidates
            candidates = candidates & passing(hosts, each, spec)
            left = int(np.count_nonzero(candidates))
        steps.append(Step(each.name, before, left))
        if not left:
            break
    return candidates, tuple(steps)


def _questions(spec: RequestSpec, plan: Plan, choice: Choice) -> Questions:
    first, further = (filters_for(plan.filters, spec, index) for index in (0, 1))
    return Questions(spec, first, further, plan.weighers, choice)


def _rules_after(index: int, request: Request, plan: Plan) -> list[BaseHostFilter] | None:
    """Return the filters of all further instances, None where they differ or none follows."""
    last = len(request.instance_uuids) - 1
    if index == last:
        return None
    rules = filters_for(plan.filters, request.spec, index + 1)
    return rules if rules == filters_for(plan.filters, request.spec, last) else None


def _place(
    hosts: HostTable,
    spec: RequestSpec,
    ranking: Ranking | IncrementalRanking,
    position: int,
    steps: tuple[Step, ...],
) -> Placement:
    """Consume what the instance needs on the chosen host."""
    chosen = ranking.candidate(hosts, position)
    weighed = _best_weighed(hosts, ranking)
    state = HostState.of(hosts, chosen.row)
    taken = None if spec.is_rebuild else state.consume_from_request(spec)
    return Placement(spec.instance_uuid, chosen, steps, weighed, taken=taken)


def _best_weighed(
    hosts: HostTable, ranking: Ranking | IncrementalRanking
) -> tuple[WeighedHost, ...]:
    best = np.array(ranking.best_first(EXPLAINED), np.int64)
    shares = {name: each.tolist() for name, each in ranking.shares(best).items()}
    rows, totals = ranking.rows[best].tolist(), ranking.totals[best].tolist()
    return tuple(
        WeighedHost(
            hosts.get(row, "host"),
            hosts.get(row, "nodename"),
            total,
            {name: each[place] for name, each in shares.items()},
        )
        for place, (row, total) in enumerate(zip(rows, totals, strict=True))
    )


def _weigh_again(
    hosts: HostTable,
    request: Request,
    plan: Plan,
    placements: Sequence[Placement],
    candidates: Mask,
) -> Ranking:
    """Return the weights of the candidates that remain after several instances."""
    last = len(placements) - 1
    chosen = (each.chosen.host for each in placements)
    spec = request.spec.for_instance(placements[last].instance_uuid, chosen)
    left, _ = filter_hosts(hosts, spec, plan.filters, candidates, last)
    return weigh_hosts(hosts, spec, plan.weighers, np.flatnonzero(left))


def _with_alternates(
    hosts: HostTable,
    request: Request,
    placements: Sequence[Placement],
    ranking: Ranking | IncrementalRanking,
) -> list[Placement]:
    """Return placements with alternates: the next best hosts."""
    found = add_alternates(hosts, placements, ranking, request.alternates)
    if request.holds_alternates:
        found = limit_alternates(found, hosts, request.spec, ranking.left())
    return [*found]
