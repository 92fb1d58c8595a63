# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A decision from beginning to end: prefilter, filter, weigh, pick, consume, for each instance.

Source: behaviour reference 3.2 to 3.8.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from inventory.objects.instance_group import AFFINITY
from inventory.objects.reserved_place import ReservedPlace
from inventory.objects.standby import Protection
from scheduler.decision import reserved_places
from scheduler.decision.alternates import add_alternates, limit_alternates
from scheduler.decision.further_instances import FurtherInstances
from scheduler.decision.picker import Choice
from scheduler.decision.plugin_calls import applies, ask_plugin, is_row_local, mask_of
from scheduler.decision.prefilter import no_such_host, prefilter
from scheduler.decision.reserved_places import ReservedPlaces
from scheduler.decision.types import (
    Decision,
    OtherStandby,
    Placement,
    PlacementFailure,
    Step,
    WeighedHost,
)
from scheduler.decision.weighing import Ranking, weigh_hosts
from scheduler.filters import BaseHostFilter
from scheduler.hosts.columns import Mask
from scheduler.hosts.host_state import Consumption, HostState, consumes_numbers_only, place_instance
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
    are only as many as may be held. places are the reserved ones that the instances may take.
    Instances with a protection get standbys. others are standbys of further members of the server
    group, on hosts that the spec names, which may make room if no other host is left.
    """

    spec: RequestSpec
    instance_uuids: Sequence[str | None]
    alternates: int = 0
    seed: int = 0
    by_admin: bool = False
    choices: int = 1
    holds_alternates: bool = False
    places: Sequence[ReservedPlace] = ()
    protection: Protection | None = None
    others: Sequence[OtherStandby] = ()


def decide(hosts: HostTable, request: Request, plan: Plan) -> Decision:
    """Return where all instances of a request go, or the failure.

    hosts is consumed, also by what was placed before a failure: pass a working copy. A host refused
    for one instance is no candidate for the next ones, since it can only have become fuller. As
    long as instances find reserved places, other hosts are not asked.
    """
    ranker = _Ranker(hosts, request, plan)
    placements: list[Placement] = []
    for index, uuid in enumerate(request.instance_uuids):
        ranking = ranker.rank(placements)
        if not len(ranking.rows):
            reason = no_such_host(hosts, request.spec) or refusal(request.spec, plan) or NOT_ENOUGH
            return refused(hosts, request, ranker.steps, reason, index)
        placements.append(_place(hosts, uuid, ranker, ranking))
    if placements and request.alternates and not request.spec.is_rebuild:
        ranking = ranker.rank_again(placements)
        placements = add_alternates(hosts, placements, ranking, request.alternates)
        if request.holds_alternates:
            placements = limit_alternates(placements, hosts, request.spec, ranking.remaining())
    return placed(hosts, request, placements)


class _Ranker:
    """Filters and weighs the hosts for one instance of a request after the other.

    steps are those of the last instance, spec is the request of the last one for which all hosts
    were asked.
    """

    def __init__(self, hosts: HostTable, request: Request, plan: Plan) -> None:
        self._hosts, self._request, self._plan = hosts, request, plan
        self.spec = request.spec
        self.choice = Choice(
            request.seed, plan.host_subset_size, plan.shuffle_best, request.choices
        )
        group = request.spec.instance_group
        hosts.group_counts = count_members(hosts, group) if group else None
        self._candidates, self._first_steps = allowed(hosts, request.spec, plan)
        self.steps = self._first_steps
        # Of the last instance for which all hosts were asked.
        self._ranking: Ranking
        self._further: FurtherInstances | None = None
        # Until an instance finds no reserved place; then how many have found one.
        self.places: ReservedPlaces | None = None
        self._in_places = 0
        if request.places:
            self.places = ReservedPlaces(hosts, request.spec, request.places)

    def rank(self, placements: Sequence[Placement]) -> Ranking | FurtherInstances:
        """Return the hosts that remain for the instance after these, with their weights."""
        uuid = self._request.instance_uuids[len(placements)]
        if self.places is not None:
            in_place = self._rank_places(self.places, placements, uuid)
            if in_place is not None:
                return in_place
            self.places, self._in_places = None, len(placements)
        index = len(placements) - self._in_places
        if index and self._further is None:
            self._further = self._further_instances(index, placements[-1])
        if self._further is not None and self._further.follow(placements[-1].chosen.row, uuid):
            self.steps = (*self._first_steps, *self._further.steps)
            return self._further
        return self._rank_all(placements, uuid, index)

    def rank_again(self, placements: Sequence[Placement]) -> Ranking | FurtherInstances:
        """Return the hosts where the last instance could go as well, now that all are placed."""
        last = placements[-1]
        if last.place is not None:
            # Nothing is held twice: alternates are hosts with room of their own.
            return self._rank_all(placements, last.instance_uuid, 0)
        if len(placements) - self._in_places == 1:
            return self._ranking
        # Of members of a group the limits may differ now.
        further = self._further if self._request.spec.instance_group is None else None
        if further is not None and further.follow(last.chosen.row, None):
            return further
        index = len(placements) - 1 - self._in_places
        return self._rank_all(placements, last.instance_uuid, index)

    def _rank_places(
        self, places: ReservedPlaces, placements: Sequence[Placement], uuid: str | None
    ) -> Ranking | None:
        """Return the hosts with reserved places for the instance, None where none passes."""
        hosts, plan = self._hosts, self._plan
        chosen = (each.chosen.host for each in placements)
        spec = self._request.spec.for_instance(uuid, chosen)
        for mask in places.masks():
            with places.room_on(mask):
                candidates = self._candidates & mask
                left, steps = filter_hosts(hosts, spec, plan.filters, candidates)
                if left.any():
                    first = reserved_places.step(self._candidates, mask)
                    self.spec, self.steps = spec, (*self._first_steps, first, *steps)
                    return weigh_hosts(hosts, spec, plan.weighers, left.nonzero()[0])
        return None

    def _rank_all(self, placements: Sequence[Placement], uuid: str | None, index: int) -> Ranking:
        """Ask about all remaining hosts."""
        hosts, plan = self._hosts, self._plan
        if self._further is not None:
            self._candidates, self._further = self._further.candidates(), None
        chosen = (each.chosen.host for each in placements)
        self.spec = spec = self._request.spec.for_instance(uuid, chosen)
        self._candidates, steps = filter_hosts(hosts, spec, plan.filters, self._candidates, index)
        self.steps = (*self._first_steps, *steps)
        self._ranking = weigh_hosts(hosts, spec, plan.weighers, self._candidates.nonzero()[0])
        if len(self._request.instance_uuids) > 1:
            self._ranking.keep()
        return self._ranking

    def _further_instances(self, index: int, placed: Placement) -> FurtherInstances | None:
        """Return what ranks the instances from this place on, None where all hosts are asked."""
        filters, spec = self._plan.filters, self._request.spec
        most = len(self._request.instance_uuids) - 1 - self._in_places
        now, last = (filters_for(filters, spec, at) for at in (index, most))
        if placed.taken is None or now != last:
            return None
        if not can_be_followed(self._hosts, self.spec, now, self._ranking):
            return None
        return FurtherInstances(
            self._hosts, self.spec, now, self._ranking, self.choice, placed.taken, most + 1 - index
        )


def can_be_followed(
    hosts: HostTable, spec: RequestSpec, filters: Sequence[BaseHostFilter], ranking: Ranking
) -> bool:
    """Return whether only the host that takes an instance changes, in a way that can be followed.

    ranking has the hosts that remained for an instance, spec is the request of that instance, which
    its host has taken; filters are those of further instances.
    """
    if not consumes_numbers_only(hosts, spec) or not ranking.is_finite:
        return False
    group = spec.instance_group
    if group is not None:
        if group.policy == AFFINITY and not group.hosts:
            # The host of the first member decides for all others.
            return False
        # Where an instance is already, its group lets it stay; nodes of a host share counts.
        present = hosts.instances.rows_of(spec.instance_uuid or "")
        if len(present) > 1 or not hosts.names.has_one_node_per_host:
            return False
    asked = [each for each in filters if applies(each, spec)]
    weighers = [each.weigher for each in ranking.weighed]
    return all(is_row_local(each, spec) for each in (*asked, *weighers))


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
    filters = [each for each in plan.request_filters if applies(each, spec)]
    candidates, steps = apply_filters(hosts, spec, filters, candidates)
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
    return [
        each
        for each in filters
        if (each.runs_by_attribute and not (index and each.run_filter_once_per_request))
        or ask_plugin(each.run_filter_for_index, index, default=True)
    ]


def apply_filters(
    hosts: HostTable, spec: RequestSpec, filters: Sequence[BaseHostFilter], candidates: Mask
) -> tuple[Mask, tuple[Step, ...]]:
    """Return the candidates that pass these filters, and a step for each until none is left."""
    steps: list[Step] = []
    left = int(np.count_nonzero(candidates))
    for each in filters:
        before = left
        hosts.candidates = candidates
        if each.always_applies or applies(each, spec):
            candidates = candidates & mask_of(each, hosts, spec)
            left = int(np.count_nonzero(candidates))
        steps.append(Step(each.name, before, left))
        if not left:
            break
    return candidates, tuple(steps)


def _place(
    hosts: HostTable, uuid: str | None, ranker: _Ranker, ranking: Ranking | FurtherInstances
) -> Placement:
    """Choose a host, and consume there what the instance needs."""
    spec, choice = ranker.spec, ranker.choice
    if isinstance(ranking, FurtherInstances):
        position = ranking.choose(choice)
        chosen = ranking.candidate(hosts, position)
        node = chosen.host, chosen.nodename
        weighed: tuple[WeighedHost, ...] = (ranking.weighed_host(node, position),)
        taken: Consumption | None = ranking.consumed
        place_instance(hosts, chosen.row, spec, uuid, ranking.consumed)
    else:
        best = ranking.best_first(EXPLAINED)
        position = best[0] if choice.takes_best else ranking.choose(choice)
        chosen = ranking.candidate(hosts, position)
        weighed = ranking.weighed_hosts(hosts, best)
        state = HostState.of(hosts, chosen.row)
        taken = None if spec.is_rebuild else state.consume_from_request(spec)
    place = ranker.places.take(chosen.row).uuid if ranker.places else None
    return Placement(uuid, chosen, ranker.steps, weighed, taken=taken, place=place)
