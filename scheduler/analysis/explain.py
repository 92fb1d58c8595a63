# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Explain where an instance went, and why not elsewhere: the decision is made once more."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from inventory.errors import counted
from scheduler.analysis.diagnosis import Rejection, filter_rejections, name_rejections
from scheduler.analysis.near_miss import NearMiss, RefusedInstance
from scheduler.analysis.refusal_groups import (
    MAX_ASKED,
    FilterSummary,
    RefusalGroup,
    group_refusals,
    summarize,
)
from scheduler.decision.picker import Choice
from scheduler.decision.pipeline import Plan, Request, filters_for
from scheduler.decision.reserved_places import give_room
from scheduler.decision.types import Decision, Placement, Refusal, Step, WeighedHost
from scheduler.decision.weighing import weigh_hosts
from scheduler.drivers import BaseDriver
from scheduler.hosts.columns import Rows
from scheduler.hosts.host_state import Candidate, HostState
from scheduler.hosts.row_index import count_members
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec


@dataclass(frozen=True, slots=True)
class ReplayState:
    """The table after the earlier instances of the request, and the request of the instance.

    found is its placement; without one, steps are those of the failure.
    """

    index: int
    hosts: HostTable
    spec: RequestSpec
    steps: tuple[Step, ...]
    found: Placement | None

    @property
    def chosen(self) -> Candidate | None:
        return self.found.chosen if self.found else None


def state_at(
    hosts: HostTable,
    request: Request,
    driver: BaseDriver,
    index: int,
    pause: Callable[[], None] = lambda: None,
) -> ReplayState:
    """Return the state of the instance at this place; hosts stays as it is.

    pause is called between two decisions. Raise ValueError where there was no decision about such
    an instance.
    """
    uuids = request.instance_uuids

    def decide(count: int) -> Decision:
        pause()
        first = replace(request, instance_uuids=uuids[:count], alternates=0)
        return driver.decide(hosts.working_copy(), first)

    if not 0 <= index < len(uuids):
        many = counted(len(uuids), "instance")
        raise ValueError(f"the request has {many}: there is no instance number {index}")
    decision = decide(len(uuids))
    failure = decision.shortage
    if failure and index > failure.index:
        raise ValueError(f"the request was refused for instance {failure.index}, before {index}")
    if failure and index < failure.index:
        decision, failure = decide(index + 1), None
    earlier = decide(index).placements if failure and index else decision.placements[:index]
    spec = request.spec.for_instance(uuids[index], (each.chosen.host for each in earlier))
    # A driver may decide nothing at all.
    found = None if failure or not decision.placements else decision.placements[index]
    outcome = failure or found
    steps = outcome.steps if outcome else ()
    return ReplayState(index, _after(hosts, request.spec, earlier), spec, steps, found)


def find_rejections(
    hosts: HostTable, at: ReplayState, request: Request, plan: Plan
) -> list[Rejection]:
    """Return all rules that reject hosts for the instance.

    Rules that apply once for a request saw the table before any of its instances.
    """
    first = _after(hosts, request.spec, ())
    now = filters_for(plan.filters, request.spec, at.index)
    once = [each for each in filters_for(plan.filters, request.spec, 0) if each not in now]
    found = name_rejections(first, request.spec)
    if not request.spec.is_rebuild:
        found += filter_rejections(first, request.spec, plan.request_filters)
    found += filter_rejections(first, request.spec.for_instance(request.instance_uuids[0]), once)
    found += filter_rejections(at.hosts, at.spec, now)
    if at.chosen is not None:
        # By the rules of its own, a driver may choose a host that filters reject.
        for each in found:
            each.refused[at.chosen.row] = False
    return found


def _after(hosts: HostTable, spec: RequestSpec, earlier: Iterable[Placement]) -> HostTable:
    """Return a working copy on which these instances have consumed what they need."""
    now = hosts.working_copy()
    if spec.instance_group is not None:
        now.group_counts = count_members(hosts, spec.instance_group)
    for each in earlier:
        if each.taken is not None:
            one = spec.for_instance(each.instance_uuid)
            HostState.of(now, each.chosen.row).consume_from_request(one)
        if each.taken is not None and each.place is not None:
            give_room(now, each.chosen.row, spec)
    return now


# The number of hosts after which there is a pause: that is about every 2 ms.
_AT_A_TIME = 32


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict about one host: all refusals, or its weights and rank, 1 for the best."""

    host: str
    nodename: str
    refusals: tuple[Refusal, ...] = ()
    rank: int | None = None
    weighed: WeighedHost | None = None
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class Explanation:
    """The decision about one instance, host by host.

    One of the drawn_from best of the passing hosts was drawn: 1 for the best alone, 0 where none
    was or the driver has a choice of its own. reasons counts the hosts that each rule or filter
    refuses, also where others do. verdicts begin with the chosen host; then come passing hosts, the
    best first, and refused ones, those with the fewest refusals and the latest ones first. tied is
    how many hosts have the weight of the chosen one. summary has the first refusal of each host by
    filter, refused the hosts by equal reasons, in the order of the verdicts.
    """

    index: int
    instance_uuid: str | None
    steps: tuple[Step, ...]
    chosen: str | None
    chosen_node: str | None
    hosts: int
    passing: int
    drawn_from: int
    verdicts: tuple[Verdict, ...]
    reasons: Mapping[str, int]
    tied: int = 0
    summary: tuple[FilterSummary, ...] = ()
    refused: tuple[RefusalGroup, ...] = ()
    near_misses: tuple[NearMiss, ...] = ()


@dataclass(frozen=True, slots=True)
class Extent:
    """How much to explain: which hosts, by the name of host or node, and how many at most.

    The chosen host is always among them. near is the number of near misses of each kind for an
    instance without a host. pause is called every few milliseconds, so that other requests run.
    """

    only: Collection[str] | None = None
    most: int | None = None
    near: int = 0
    pause: Callable[[], None] = lambda: None


ALL = Extent()


class _Ranking(NamedTuple):
    """The rows that pass, best first, and their weights in this order."""

    rows: list[int]
    totals: list[float]
    shares: Mapping[str, list[float]]
    drawn_from: int


def explain(
    hosts: HostTable, request: Request, driver: BaseDriver, index: int, extent: Extent = ALL
) -> Explanation:
    """Return why the instance at this place of a request went where it did, or nowhere.

    hosts is the table of the decision, and stays as it is. Raise ValueError where there was no
    decision about such an instance.
    """
    at = state_at(hosts, request, driver, index, extent.pause)
    found = find_rejections(hosts, at, request, driver.plan)
    extent.pause()
    counts = np.add.reduce([each.refused for each in found], axis=0, dtype=np.int64)
    ranking = _ranked(at, request, driver.plan, np.flatnonzero(hosts.present & (counts == 0)))
    extent.pause()
    rows = _rows(at, found, ranking)
    asked = _paced(rows[len(ranking.rows) :][:MAX_ASKED], extent.pause)
    groups = group_refusals(hosts, found, asked)
    verdicts = [*_verdicts(at, found, ranking, _selected(at, rows, extent))]
    near = _near_misses(at, found, extent)
    return Explanation(
        index=index,
        instance_uuid=at.spec.instance_uuid,
        steps=at.steps,
        chosen=at.chosen.host if at.chosen else None,
        chosen_node=at.chosen.nodename if at.chosen else None,
        hosts=len(hosts),
        passing=len(ranking.rows),
        drawn_from=ranking.drawn_from,
        verdicts=tuple(verdicts),
        reasons=_reasons(found),
        tied=_tied(at, ranking),
        summary=tuple(summarize(hosts, found, groups)),
        refused=_kept(groups, near, extent.most),
        near_misses=near,
    )


def _kept(
    groups: Sequence[RefusalGroup], near: Iterable[NearMiss], most: int | None
) -> tuple[RefusalGroup, ...]:
    """Return the first groups, at most most of them if it is given, and those with near misses."""
    hosts = {each.host for each in near}
    return tuple(
        group
        for number, group in enumerate(groups)
        if most is None or number < most or not hosts.isdisjoint(group.first_hosts)
    )


def _ranked(at: ReplayState, request: Request, plan: Plan, rows: Rows) -> _Ranking:
    weights = weigh_hosts(at.hosts, at.spec, plan.weighers, rows)
    order = np.argsort(-weights.totals, kind="stable")
    best = rows[order].tolist()
    shares = {name: each[order].tolist() for name, each in weights.shares().items()}
    choice = Choice(0, plan.host_subset_size, plan.shuffle_best, request.choices)
    drawn_from = choice.drawn_from(weights.totals) if best else 0
    if at.chosen is None or at.chosen.row not in best[:drawn_from]:
        drawn_from = 0
    return _Ranking(best, weights.totals[order].tolist(), shares, drawn_from)


def _tied(at: ReplayState, ranking: _Ranking) -> int:
    """Return how many hosts have the weight of the chosen one, 0 where that has none."""
    if at.chosen is None or at.chosen.row not in ranking.rows:
        return 0
    return ranking.totals.count(ranking.totals[ranking.rows.index(at.chosen.row)])


def _rows(at: ReplayState, found: Sequence[Rejection], ranking: _Ranking) -> list[int]:
    """Return the rows of all hosts in the order of the verdicts."""
    refused_by = np.array([each.refused for each in found])
    refused = np.flatnonzero(at.hosts.present & refused_by.any(axis=0))
    counts, first = refused_by.sum(axis=0)[refused], refused_by.argmax(axis=0)[refused]
    rows = [*ranking.rows, *refused[np.lexsort((-first, counts))].tolist()]
    if at.chosen is not None:
        rows.remove(at.chosen.row)
        rows.insert(0, at.chosen.row)
    return rows


def _selected(at: ReplayState, rows: list[int], extent: Extent) -> Iterator[int]:
    """Yield the rows within the extent, with pauses."""
    if extent.only is not None:
        names, hosts = {*extent.only}, at.hosts
        selected = {row for name in names for row in hosts.rows_of_host(name, any_case=True)}
        if at.chosen is not None:
            selected.add(at.chosen.row)
        rows = [row for row in rows if row in selected or hosts.get(row, "nodename") in names]
    return _paced(rows[: extent.most], extent.pause)


def _paced(rows: Iterable[int], pause: Callable[[], None]) -> Iterator[int]:
    for place, row in enumerate(rows):
        if place % _AT_A_TIME == 0:
            pause()
        yield row


def _verdicts(
    at: ReplayState, found: Sequence[Rejection], ranking: _Ranking, rows: Iterable[int]
) -> Iterator[Verdict]:
    places = {row: place for place, row in enumerate(ranking.rows)}
    for row in rows:
        host, nodename = at.hosts.get(row, "host"), at.hosts.get(row, "nodename")
        place = places.get(row)
        if place is None:
            refusals = tuple(each.refusal(row) for each in found if each.refused[row])
            yield Verdict(host, nodename, refusals)
            continue
        shares = {name: each[place] for name, each in ranking.shares.items()}
        weights = WeighedHost(host, nodename, ranking.totals[place], shares)
        is_chosen = at.chosen is not None and at.chosen.row == row
        yield Verdict(host, nodename, (), place + 1, weights, is_chosen)


def _reasons(found: Iterable[Rejection]) -> dict[str, int]:
    counts = {each.name: int(np.count_nonzero(each.refused)) for each in found}
    return {name: count for name, count in counts.items() if count}


def _near_misses(
    at: ReplayState, found: Sequence[Rejection], extent: Extent
) -> tuple[NearMiss, ...]:
    if at.found is not None or not extent.near:
        return ()
    rows = _paced(np.flatnonzero(at.hosts.present).tolist(), extent.pause)
    refused = RefusedInstance(at.hosts, at.spec, found)
    return tuple(refused.near_misses(rows, extent.near, extent.pause))


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A decision without claims, and what it was made of."""

    decision: Decision
    hosts: HostTable
    request: Request
    driver: BaseDriver

    @property
    def index(self) -> int:
        """The place of the instance without a host, else of the first one."""
        return self.decision.shortage.index if self.decision.shortage else 0

    def explain(self, extent: Extent) -> Explanation:
        """Return why it was decided so for the instance at index."""
        return explain(self.hosts, self.request, self.driver, self.index, extent)
