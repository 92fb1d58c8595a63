# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What hosts hold for standbys while a decision is made, and where one more is best."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from inventory.objects import standby
from inventory.objects.amounts import NOTHING, Amounts, amounts_of, plus
from inventory.objects.instance_group import AFFINITY
from inventory.objects.reserved_place import ReservedPlace
from inventory.objects.standby import DomainSums, Protection
from inventory.objects.standby_sums import NodeSums
from scheduler.decision import pipeline
from scheduler.decision.evacuations import only_on, row_of_node
from scheduler.decision.picker import Choice
from scheduler.decision.pipeline import Plan, Request
from scheduler.decision.types import OtherStandby, PlannedStandby, Step
from scheduler.decision.weighing import weigh_hosts
from scheduler.hosts.columns import Mask, Rows
from scheduler.hosts.failure_domains import domains_of, in_any
from scheduler.hosts.host_state import BARE_METAL, Candidate, usage_changes
from scheduler.hosts.resources import KINDS
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec

# Tenants may read these.
NO_STANDBY = "no host of another failure domain could hold its standby"
_EXACT = (
    "cannot be protected, since NUMA cells and PCI devices of a host cannot be held for a standby"
)
_ELSEWHERE = "cannot be protected, since only Placement knows which hosts have what it requests"
_TOGETHER = "cannot be protected, since the members of its server group have to share a host"
# A host that holds standbys of so many failure domains saves hardly anything by one more, and each
# costs its claims some time.
MOST_DOMAINS = 64


class StandbyRoom:
    """What the hosts of a table hold for standbys, with those that were found since."""

    def __init__(self, hosts: HostTable, protection: Protection) -> None:
        self.hosts = hosts
        self._own = protection.own
        sums = protection.sums
        self._known = sums if isinstance(sums, NodeSums) else NodeSums(sums)
        self._rows, self._is_there = _rows_of(hosts, self._known.ids)
        self._held = self._by_row(self._known.held)
        # Where it is not as it was known, by row, and what each failure domain brings there.
        self._changed: dict[int, DomainSums] = {}
        self._changed_of: dict[str, dict[int, Amounts]] = defaultdict(dict)

    def find(
        self, spec: RequestSpec, row: int, request: Request, plan: Plan
    ) -> tuple[PlannedStandby, Sequence[Step]]:
        """Return the standby of an instance that is on the host of a row, and the steps.

        spec is the request to evacuate it. What the standby adds is consumed.
        """
        hosts = self.hosts
        domains, size = domains_of(hosts, row), amounts_of(spec)
        planned = PlannedStandby(domains, size)
        if reason := _unprotectable(hosts, spec, row):
            planned.reason = reason
            return planned, ()
        candidates, steps = pipeline.allowed(hosts, spec, plan)
        candidates = self._elsewhere(candidates, row, domains)
        rows, besides = self._besides(domains)
        shared = np.minimum(besides, np.array(size, np.int64))
        with self._given(rows, shared), _counting_anew(hosts):
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
        return planned, (*steps, *more)

    def elsewhere(
        self, other: OtherStandby, spec: RequestSpec, request: Request, plan: Plan
    ) -> PlannedStandby | None:
        """Return the standby of another instance anew, None where its hosts are not known.

        Without a host for it, the old one goes on to hold it; see give_up().
        """
        at = row_of_node(self.hosts, other.node_id)
        place = row_of_node(self.hosts, other.place_node_id)
        if at is None or place is None:
            return None
        self.give_back(at, other.domains, other.size)
        planned, _ = self.find(spec, place, request, plan)
        if planned.host is None:
            self.give_back(at, other.domains, other.size, -1)
        return planned

    def own_hosts(self) -> list[str]:
        """Return the hosts of the standbys that the instances of the request have already."""
        rows = [row_of_node(self.hosts, each.node_id) for each in self._own if each.node_id]
        return [self.hosts.get(row, "host") for row in rows if row is not None]

    def give_up(self, other: OtherStandby) -> None:
        """Let the host of a standby of another instance hold it no more."""
        at = row_of_node(self.hosts, other.node_id)
        assert at is not None
        self.give_back(at, other.domains, other.size)

    def of_place(
        self, place: ReservedPlace, spec: RequestSpec, row: int, request: Request, plan: Plan
    ) -> PlannedStandby | None:
        """Return the standby of a reserved place for an instance, None if it does not suit.

        A place without one gets it for the instance.
        """
        node_id, spec = place.standby_node_id, spec.at_least(place.size)
        at = None if node_id is None else row_of_node(self.hosts, node_id)
        if at is not None:
            domains = domains_of(self.hosts, row)
            self.give_back(at, domains, place.size)
            spec = only_on(self.hosts, at, spec)
        planned, _ = self.find(spec, row, request, plan)
        planned.place = place.uuid
        if at is None:
            return planned if planned.reason in (None, NO_STANDBY) else None
        if planned.host is None:
            self.hosts.add_to(at, usage_changes(*self._change(at, domains, place.size)))
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

    def give_back(self, row: int, domains: Sequence[str], size: Amounts, times: int = 1) -> None:
        """Let a host hold a standby no more, or again where times is -1."""
        self.hosts.add_to(row, usage_changes(*self._change(row, domains, size, -times)))

    def held_on(self, row: int) -> Amounts:
        """Return what a host holds for standbys."""
        vcpus, memory_mb, disk_mb = self._held[row].tolist()
        return vcpus, memory_mb, disk_mb

    def is_over(self, row: int, besides: Amounts = NOTHING) -> bool:
        """Return whether more of a host is used than its ratios allow, besides so much."""
        for kind, less in zip(KINDS, besides, strict=True):
            total, used = (each.item() for each in kind.amounts(self.hosts, np.array([row])))
            # Not so where a ratio is unknown.
            if used - less > total * float(getattr(self.hosts, kind.ratio)[row]):
                return True
        return False

    def passes(self, row: int, spec: RequestSpec, plan: Plan, domains: Sequence[str]) -> bool:
        """Return whether a host that holds a standby still passes the filters for its instance.

        That is so where all that its failure domains would bring has room. What is held for others
        besides may be too much.
        """
        hosts, sums = self.hosts, self._sums_at(row)
        besides = plus(standby.held(sums), _own(sums, domains), -1)
        # What it holds for this instance is part of what is used.
        size = plus(amounts_of(spec), besides)
        candidates, _ = pipeline.allowed(hosts, spec, plan)
        only = np.zeros(hosts.size, np.bool_)
        only[row] = candidates[row]
        self.hosts.add_to(row, usage_changes(*plus(NOTHING, size, -1)))
        try:
            filters = pipeline.filters_for(plan.filters, spec, 0)
            found, _ = pipeline.apply_filters(hosts, spec, filters, only)
        finally:
            self.hosts.add_to(row, usage_changes(*size))
        return bool(found[row])

    def _elsewhere(self, candidates: Mask, row: int, domains: Sequence[str]) -> Mask:
        """Return the candidates that do not fail together with the host of a row."""
        found = np.asarray(candidates & ~in_any(self.hosts, domains), np.bool_)
        found[list(self.hosts.rows_of_host(self.hosts.get(row, "host")))] = False
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
        found = np.zeros((self.hosts.size, 3), np.int64)
        found[self._rows[self._is_there]] = known[self._is_there]
        return found

    def _sums_at(self, row: int) -> DomainSums:
        found = self._changed.get(row)
        if found is None:
            found = self._known.get(int(self.hosts.get(row, "node_id")), {})
        return found

    @contextmanager
    def _given(self, rows: Rows, shared: npt.NDArray[np.int64]) -> Iterator[None]:
        """Give hosts so much more room of what they hold for others, within the block."""
        self.hosts.add_to_rows(rows, usage_changes(*-shared.T))
        try:
            yield
        finally:
            self.hosts.add_to_rows(rows, usage_changes(*shared.T))

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
        cost = np.full(self.hosts.size, float(np.count_nonzero(parts)))
        parts[parts == 0] = 1.0
        cost[rows] -= (shared / parts).sum(axis=1)
        cost[self._crowded()] += 2 * len(size)
        costs = np.round(cost[left], 9)
        ranking = weigh_hosts(self.hosts, spec, plan.weighers, left)
        best = np.flatnonzero(costs == costs.min())
        choice = Choice(request.seed, plan.host_subset_size, plan.shuffle_best, request.choices)
        return ranking.candidate(self.hosts, int(best[choice.among(ranking.totals[best])]))

    def _crowded(self) -> Rows:
        """Return the hosts that hold standbys of so many domains that others rather share."""
        many = self._known.domains >= MOST_DOMAINS
        changed = [row for row, sums in self._changed.items() if len(sums) >= MOST_DOMAINS]
        return np.array([*self._rows[many & self._is_there].tolist(), *changed], np.int64)

    def _take(self, planned: PlannedStandby) -> None:
        """Hold what a standby adds."""
        assert planned.host is not None
        planned.more = self._change(planned.host.row, planned.domains, planned.size)
        self.hosts.add_to(planned.host.row, usage_changes(*planned.more))

    def _change(self, row: int, domains: Sequence[str], size: Amounts, sign: int = 1) -> Amounts:
        """Count a standby more, or less where sign is -1; return how much more its host holds."""
        before = self._sums_at(row)
        self._changed[row] = after = standby.changed(before, domains, size, sign)
        for name in domains:
            self._changed_of[name][row] = after.get(name, NOTHING)
        self._held[row] = now = standby.held(after)
        return plus(now, standby.held(before), -1)


@contextmanager
def _counting_anew(hosts: HostTable) -> Iterator[None]:
    """Let filters count members of a group by the hosts that a request names, within the block.

    The counts of the decision know neither its standbys nor those that have moved.
    """
    before, hosts.group_counts = hosts.group_counts, None
    try:
        yield
    finally:
        hosts.group_counts = before


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
