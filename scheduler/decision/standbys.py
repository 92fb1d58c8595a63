# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Decide about protected instances: where each goes, and where it would go if that place died.

The standby of an instance is on a host of another failure domain that passes the same filters. What
its host already holds for other domains it shares, so it is put where it adds least. An instance
whose place has died goes where its standby is, if the host still passes.

Reserved places may have standbys, too. An instance in such a place has that of the place.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from inventory.objects import standby
from inventory.objects.amounts import NOTHING, Amounts, amounts_of, plus
from inventory.objects.instance_group import AFFINITY
from inventory.objects.reserved_place import ReservedPlace
from inventory.objects.standby import NONE, REQUIRED, DomainSums, Protection
from inventory.objects.standby_sums import NodeSums
from scheduler.decision import pipeline
from scheduler.decision.evacuations import lost_standby, only_on, row_of_node, to_standby
from scheduler.decision.picker import Choice
from scheduler.decision.pipeline import Plan, Request
from scheduler.decision.types import Decision, Placement, PlannedStandby, Step
from scheduler.decision.weighing import weigh_hosts
from scheduler.hosts.columns import Mask, Rows
from scheduler.hosts.failure_domains import domains_of, in_any
from scheduler.hosts.host_state import BARE_METAL, Candidate, usage_changes
from scheduler.hosts.resources import KINDS
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec

# Tenants may read these.
NO_STANDBY = "no host of another failure domain could hold its standby"
# How the refusal of a request for want of a standby begins.
FOUND = "A place was found, but"
_EXACT = "cannot be protected, since cells and devices of a host are not held for later"
_ELSEWHERE = "cannot be protected, since only Placement knows which hosts have what it requests"
_TOGETHER = "cannot be protected, since the members of its server group have to share a host"
# A host that holds standbys of so many failure domains saves hardly anything by one more, and each
# costs its claims some time.
MOST_DOMAINS = 64


def decide(hosts: HostTable, request: Request, plan: Plan, protection: Protection) -> Decision:
    """Return pipeline.decide() with a standby for each instance, or the refusal if one lacks it.

    An instance that has lost its place is placed in any case.
    """
    lost = lost_standby(hosts, request, plan, protection)
    decision = to_standby(hosts, request, plan, lost) if lost else None
    if decision is None:
        if lost and lost.place:
            # Only an instance that goes to the standby of its place takes the place along.
            lost = None
        decision = pipeline.decide(hosts, request, plan)
    reserved = {each.uuid: each for each in request.places if each.protected}
    is_concerned = (
        protection.mode != NONE
        or lost
        or any(each.place in reserved for each in decision.placements)
    )
    if not decision.placements or not is_concerned:
        return decision
    room = StandbyRoom(hosts, protection)
    placements: list[Placement] = []
    for index, each in enumerate(decision.placements):
        chosen = [other.chosen.host for other in decision.placements if other is not each]
        spec = evacuation_spec(request.spec, each.instance_uuid, chosen)
        place, row = reserved.get(each.place or ""), each.chosen.row
        steps: Sequence[Step] = ()
        planned = room.of_place(place, spec, row, request, plan) if place else None
        if planned is None:
            if protection.mode == NONE and not (lost or place):
                placements.append(each)
                continue
            spec = spec.at_least(lost.size) if lost and lost.place else spec
            planned, steps = room.find(spec, row, request, plan)
            planned.place = lost.place if lost else None
            planned.evacuates = lost.place_node_id if lost else None
        if planned.host is None and protection.mode == REQUIRED and lost is None:
            reason = f"{FOUND} the instance {planned.reason}."
            if planned.reason == NO_STANDBY:
                reason = f"{FOUND} {NO_STANDBY}."
            return pipeline.refused(hosts, request, steps, reason, index)
        placements.append(replace(each, standby=planned))
    return replace(decision, placements=tuple(placements))


def evacuation_spec(
    spec: RequestSpec, uuid: str | None, group_hosts: Sequence[str] = ()
) -> RequestSpec:
    """Return the request to evacuate one instance, from wherever it is: what names hosts is gone.

    group_hosts are those of further members of its server group.
    """
    found = spec.for_instance(uuid, group_hosts)
    found.ignore_hosts = found.force_hosts = found.force_nodes = found.retry = None
    found.offered_nodes, found.refused_nodes = None, set()
    if found.requested_destination is not None:
        found.requested_destination = replace(found.requested_destination, host=None, node=None)
    return found


class StandbyRoom:
    """What the hosts of a table hold for standbys, with those that were found since.

    avoided are rows of hosts that hold standbys of other members of the server group.
    """

    def __init__(self, hosts: HostTable, protection: Protection) -> None:
        self._hosts = hosts
        sums = protection.sums
        self._known = sums if isinstance(sums, NodeSums) else NodeSums(sums)
        self._rows, self._is_there = _rows_of(hosts, self._known.ids)
        self._held = self._by_row(self._known.held)
        # Where it is not as it was known, by row, and what each failure domain brings there.
        self._changed: dict[int, DomainSums] = {}
        self._changed_of: dict[str, dict[int, Amounts]] = defaultdict(dict)
        avoided, is_there = _rows_of(hosts, np.array(protection.avoided, np.int64))
        self.avoided: list[int] = avoided[is_there].tolist()

    def find(
        self, spec: RequestSpec, row: int, request: Request, plan: Plan
    ) -> tuple[PlannedStandby, Sequence[Step]]:
        """Return the standby of an instance that is on the host of a row, and the steps.

        spec is the request to evacuate it. What the standby adds is consumed.
        """
        hosts = self._hosts
        domains, size = domains_of(hosts, row), amounts_of(spec)
        planned = PlannedStandby(domains, size)
        if reason := _unprotectable(hosts, spec, row):
            planned.reason = reason
            return planned, ()
        candidates, steps = pipeline.allowed(hosts, spec, plan)
        candidates = self._elsewhere(candidates, row, domains)
        rows, besides = self._besides(domains)
        shared = np.minimum(besides, np.array(size, np.int64))
        with self._given(rows, shared):
            filters = pipeline.filters_for(plan.filters, spec, 0)
            candidates, more = pipeline.apply_filters(hosts, spec, filters, candidates)
            # When the standby is needed, nothing else has to be held there: it is packed beside
            # others of its domain, as it would be then, rather than beside those of all domains.
            with self._given(rows, besides - shared):
                planned.host = self._best(spec, request, plan, candidates, rows, shared, size)
        if planned.host is None:
            planned.reason = NO_STANDBY
            return planned, (*steps, *more)
        self._take(planned)
        if spec.instance_group is not None:
            self.avoided.append(planned.host.row)
        return planned, (*steps, *more)

    def of_place(
        self, place: ReservedPlace, spec: RequestSpec, row: int, request: Request, plan: Plan
    ) -> PlannedStandby | None:
        """Return the standby of a reserved place for an instance, None if it does not suit.

        A place without one gets it for the instance.
        """
        node_id, spec = place.standby_node_id, spec.at_least(place.size)
        at = None if node_id is None else row_of_node(self._hosts, node_id)
        if at is not None:
            domains = domains_of(self._hosts, row)
            self.give_back(at, domains, place.size)
            spec = only_on(self._hosts, at, spec)
        planned, _ = self.find(spec, row, request, plan)
        planned.place = place.uuid
        if at is None:
            return planned if planned.reason in (None, NO_STANDBY) else None
        if planned.host is None:
            self._hosts.add_to(at, usage_changes(*self._change(at, domains, place.size)))
            return None
        # The host has held it already.
        planned.more = NOTHING
        return planned

    @staticmethod
    def sums_of(standbys: Iterable[tuple[int, str, Amounts]]) -> dict[int, DomainSums]:
        """Return the sums of nodes for standbys, each with its node, domains as text and size."""
        found: dict[int, DomainSums] = {}
        for node_id, domains, size in standbys:
            here = found.get(node_id, {})
            found[node_id] = standby.changed(here, domains.split(","), size)
        return found

    def give_back(self, row: int, domains: Sequence[str], size: Amounts) -> None:
        """Let a host hold a standby no more."""
        self._hosts.add_to(row, usage_changes(*self._change(row, domains, size, -1)))

    def held_on(self, row: int) -> Amounts:
        """Return what a host holds for standbys."""
        vcpus, memory_mb, disk_mb = self._held[row].tolist()
        return vcpus, memory_mb, disk_mb

    def is_over(self, row: int, besides: Amounts = NOTHING) -> bool:
        """Return whether more of a host is used than its ratios allow, besides so much."""
        for kind, less in zip(KINDS, besides, strict=True):
            total, used = (each.item() for each in kind.amounts(self._hosts, np.array([row])))
            # Not so where a ratio is unknown.
            if used - less > total * float(getattr(self._hosts, kind.ratio)[row]):
                return True
        return False

    def passes(self, row: int, spec: RequestSpec, plan: Plan, domains: Sequence[str]) -> bool:
        """Return whether a host that holds a standby still passes the filters for its instance.

        That is so where all that its failure domains would bring has room. What is held for others
        besides may be too much.
        """
        hosts, sums = self._hosts, self._sums_at(row)
        besides = plus(standby.held(sums), _own(sums, domains), -1)
        # What it holds for this instance is part of what is used.
        size = plus(amounts_of(spec), besides)
        candidates, _ = pipeline.allowed(hosts, spec, plan)
        only = np.zeros(hosts.size, np.bool_)
        only[row] = candidates[row]
        self._hosts.add_to(row, usage_changes(*plus(NOTHING, size, -1)))
        try:
            filters = pipeline.filters_for(plan.filters, spec, 0)
            found, _ = pipeline.apply_filters(hosts, spec, filters, only)
        finally:
            self._hosts.add_to(row, usage_changes(*size))
        return bool(found[row])

    def _elsewhere(self, candidates: Mask, row: int, domains: Sequence[str]) -> Mask:
        """Return the candidates that do not fail together with the host of a row."""
        found = np.asarray(candidates & ~in_any(self._hosts, domains), np.bool_)
        found[list(self._hosts.rows_of_host(self._hosts.get(row, "host")))] = False
        found[self.avoided] = False
        return found

    def _besides(self, domains: Sequence[str]) -> tuple[Rows, npt.NDArray[np.int64]]:
        """Return rows, and how much each of them holds that other domains alone need."""
        own = np.zeros_like(self._held)
        for name in domains:
            brought = self._by_row(self._known.of([name]))
            if changed := self._changed_of.get(name):
                brought[[*changed]] = [*changed.values()]
            np.maximum(own, brought, out=own)
        besides: npt.NDArray[np.int64] = self._held - own
        rows = np.flatnonzero(besides.any(axis=1))
        return rows, besides[rows]

    def _by_row(self, known: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return by row what is known by the order of the nodes."""
        found = np.zeros((self._hosts.size, 3), np.int64)
        found[self._rows[self._is_there]] = known[self._is_there]
        return found

    def _sums_at(self, row: int) -> DomainSums:
        found = self._changed.get(row)
        if found is None:
            found = self._known.get(int(self._hosts.get(row, "node_id")), {})
        return found

    @contextmanager
    def _given(self, rows: Rows, shared: npt.NDArray[np.int64]) -> Iterator[None]:
        """Give hosts so much more room of what they hold for others, within the block."""
        self._hosts.add_to_rows(rows, usage_changes(*-shared.T))
        try:
            yield
        finally:
            self._hosts.add_to_rows(rows, usage_changes(*shared.T))

    def _best(
        self,
        spec: RequestSpec,
        request: Request,
        plan: Plan,
        candidates: Mask,
        rows: Rows,
        shared: npt.NDArray[np.int64],
        size: Amounts,
    ) -> Candidate | None:
        """Return the host to which the standby adds least, the one with most weight of such.

        Hosts that hold standbys of many domains come last.
        """
        left = candidates.nonzero()[0]
        if not len(left):
            return None
        parts = np.array(size, np.float64)
        cost = np.full(self._hosts.size, float(np.count_nonzero(parts)))
        parts[parts == 0] = 1.0
        cost[rows] -= (shared / parts).sum(axis=1)
        cost[self._crowded()] += 2 * len(size)
        costs = np.round(cost[left], 9)
        ranking = weigh_hosts(self._hosts, spec, plan.weighers, left)
        best = np.flatnonzero(costs == costs.min())
        choice = Choice(request.seed, plan.host_subset_size, plan.shuffle_best, request.choices)
        return ranking.candidate(self._hosts, int(best[choice.among(ranking.totals[best])]))

    def _crowded(self) -> Rows:
        """Return the hosts that hold standbys of so many domains that others rather share."""
        many = self._known.domains >= MOST_DOMAINS
        changed = [row for row, sums in self._changed.items() if len(sums) >= MOST_DOMAINS]
        return np.array([*self._rows[many & self._is_there].tolist(), *changed], np.int64)

    def _take(self, planned: PlannedStandby) -> None:
        """Hold what a standby adds."""
        assert planned.host is not None
        planned.more = self._change(planned.host.row, planned.domains, planned.size)
        self._hosts.add_to(planned.host.row, usage_changes(*planned.more))

    def _change(self, row: int, domains: Sequence[str], size: Amounts, sign: int = 1) -> Amounts:
        """Count a standby more, or less where sign is -1; return how much more its host holds."""
        before = self._sums_at(row)
        self._changed[row] = after = standby.changed(before, domains, size, sign)
        for name in domains:
            self._changed_of[name][row] = after.get(name, NOTHING)
        self._held[row] = now = standby.held(after)
        return plus(now, standby.held(before), -1)


def _rows_of(hosts: HostTable, ids: Rows) -> tuple[Rows, Mask]:
    """Return the row of each node by its id, and which of them have one."""
    if not hosts.size:
        return np.zeros(len(ids), np.int64), np.zeros(len(ids), np.bool_)
    known = np.asarray(hosts.node_id)
    order = np.argsort(known, kind="stable")
    rows = order[np.minimum(np.searchsorted(known, ids, sorter=order), hosts.size - 1)]
    return rows, np.asarray((known[rows] == ids) & hosts.present[rows], np.bool_)


def _own(sums: DomainSums, domains: Sequence[str]) -> Amounts:
    """Return what failure domains of one host would bring, the largest sum of each resource."""
    return standby.held({name: sums[name] for name in domains if name in sums})


def _unprotectable(hosts: HostTable, spec: RequestSpec, row: int) -> str | None:
    """Return why an instance cannot have a standby, None where it can."""
    exact = spec.numa_topology or spec.devices or spec.requested_resources
    if exact or hosts.get(row, "hypervisor_type") == BARE_METAL:
        return _EXACT
    if spec.needs_placement:
        return _ELSEWHERE
    group = spec.instance_group
    return _TOGETHER if group is not None and group.policy == AFFINITY else None
