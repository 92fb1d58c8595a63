# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Why an instance went where it did, and why nowhere else: the decision is made once more."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from scheduler.decision.host_table import HostTable
from scheduler.decision.moment import Driver, Moment, moment, obstacles
from scheduler.decision.near_miss import NearMiss, Refused
from scheduler.decision.obstacles import Obstacle
from scheduler.decision.outcome import Decision, Refusal, Step, WeighedHost
from scheduler.decision.picker import Choice
from scheduler.decision.pipeline import Plan, Request
from scheduler.decision.weighing import weighed

# After so many hosts others may have their turn: that is about 2 ms.
_AT_A_TIME = 32


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one host: all that refuses it, or its place among those that pass.

    rank is 1 for the best; weighed is there for hosts that pass.
    """

    host: str
    nodename: str
    refusals: tuple[Refusal, ...] = ()
    rank: int | None = None
    weighed: WeighedHost | None = None
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class Explanation:
    """The decision about one instance, host by host.

    Of all hosts some pass, and one of the drawn_from best of these was drawn: 1 where the best is
    taken, 0 where nothing was or the driver has a choice of its own. reasons says how many hosts
    each rule or filter refuses, whatever others say of them. verdicts begin with the chosen host;
    others that pass follow, the best first, and those that are refused, for the fewest reasons
    first, and of these the last to be refused first.
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
    near_misses: tuple[NearMiss, ...] = ()


@dataclass(frozen=True, slots=True)
class Extent:
    """How much to explain: of which hosts, by the name of host or node, and of how many at most.

    The chosen host is always among them. near is how many near misses are wanted of each kind, of
    an instance for which there is no host. pause is called every few milliseconds, for others to
    have their turn.
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
    hosts: HostTable, request: Request, driver: Driver, index: int, extent: Extent = ALL
) -> Explanation:
    """Return why the instance at this place of a request went where it did, or nowhere.

    hosts is the table on which it was decided, and stays as it is. Raises ValueError where nothing
    was decided about such an instance.
    """
    at = moment(hosts, request, driver, index, extent.pause)
    found = obstacles(hosts, at, request, driver.plan)
    extent.pause()
    counts = np.add.reduce([each.refused for each in found], axis=0, dtype=np.int64)
    ranking = _ranked(at, request, driver.plan, np.flatnonzero(hosts.present & (counts == 0)))
    extent.pause()
    rows = _rows(at, found, ranking)
    told = [*_verdicts(at, found, ranking, _within(at, rows, extent))]
    near = _near_misses(at, found, extent) if at.found is None else ()
    return Explanation(
        index=index,
        instance_uuid=at.spec.instance_uuid,
        steps=at.steps,
        chosen=at.chosen.host if at.chosen else None,
        chosen_node=at.chosen.nodename if at.chosen else None,
        hosts=len(hosts),
        passing=len(ranking.rows),
        drawn_from=ranking.drawn_from,
        verdicts=tuple(told),
        reasons=_reasons(found),
        near_misses=tuple(near),
    )


def index_of(decision: Decision, instance_uuid: str | None = None) -> int:
    """Return the place of an instance in its request; without a uuid that of the refused one."""
    if decision.shortage and instance_uuid in (None, decision.shortage.instance_uuid):
        return decision.shortage.index
    uuids = [each.instance_uuid for each in decision.placements]
    return uuids.index(instance_uuid) if instance_uuid in uuids else 0


def _ranked(at: Moment, request: Request, plan: Plan, rows: npt.NDArray[np.int64]) -> _Ranking:
    weights = weighed(at.hosts, at.spec, plan.weighers, rows)
    order = np.argsort(-weights.totals, kind="stable")
    best = rows[order].tolist()
    shares = {name: each[order].tolist() for name, each in weights.shares().items()}
    choice = Choice(Random(), plan.host_subset_size, plan.shuffle_best, request.choices)
    drawn_from = choice.drawn_from(weights.totals) if best else 0
    if at.chosen is None or at.chosen.row not in best[:drawn_from]:
        drawn_from = 0
    return _Ranking(best, weights.totals[order].tolist(), shares, drawn_from)


def _rows(at: Moment, found: Sequence[Obstacle], ranking: _Ranking) -> list[int]:
    """Return the rows of all hosts in the order in which they are told of.

    Of hosts with equally many reasons those come first that were left the longest.
    """
    refused_by = np.array([each.refused for each in found])
    refused = np.flatnonzero(at.hosts.present & refused_by.any(axis=0))
    counts, first = refused_by.sum(axis=0)[refused], refused_by.argmax(axis=0)[refused]
    rows = [*ranking.rows, *refused[np.lexsort((-first, counts))].tolist()]
    if at.chosen is not None:
        rows.remove(at.chosen.row)
        rows.insert(0, at.chosen.row)
    return rows


def _within(at: Moment, rows: list[int], extent: Extent) -> Iterator[int]:
    """Yield the rows that are wanted, with pauses."""
    if extent.only is not None:
        names, hosts = {*extent.only}, at.hosts
        wanted = {row for name in names for row in hosts.rows_of_host(name, any_case=True)}
        if at.chosen is not None:
            wanted.add(at.chosen.row)
        rows = [row for row in rows if row in wanted or hosts.get(row, "nodename") in names]
    return _paced(rows[: extent.most], extent.pause)


def _paced(rows: Iterable[int], pause: Callable[[], None]) -> Iterator[int]:
    for place, row in enumerate(rows):
        if place % _AT_A_TIME == 0:
            pause()
        yield row


def _verdicts(
    at: Moment, found: Sequence[Obstacle], ranking: _Ranking, rows: Iterable[int]
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


def _reasons(found: Iterable[Obstacle]) -> dict[str, int]:
    counts = {each.name: int(np.count_nonzero(each.refused)) for each in found}
    return {name: count for name, count in counts.items() if count}


def _near_misses(at: Moment, found: Sequence[Obstacle], extent: Extent) -> list[NearMiss]:
    if not extent.near:
        return []
    refused = Refused(at.hosts, at.spec, found)
    rows = np.flatnonzero(at.hosts.present).tolist()
    return refused.near_misses(_paced(rows, extent.pause), extent.near, extent.pause)
