# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Count how many more instances fit, in bulk or by placing them, and how large one can be.

Where no host depends on another, all hosts are counted side by side; else the scheduler's decisions
are made until one fails.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import NamedTuple, Self

import numpy as np

from scheduler.base_plugin import INSTANCES, MEMBERS
from scheduler.decision.pipeline import Plan, Request, allowed, filter_hosts, filters_for
from scheduler.decision.plugin_calls import applies, ask_plugin, is_row_local, mask_of
from scheduler.decision.types import Decision
from scheduler.drivers import BaseDriver
from scheduler.drivers.filter_scheduler import FilterScheduler
from scheduler.filters import BaseHostFilter
from scheduler.hosts.columns import Rows
from scheduler.hosts.host_state import Candidate, Consumption, consumes_numbers_only
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec

# What an instance may change of its host.
_CHANGED = frozenset(
    {*Consumption(0, 0, 0).changes, "numa_topology", "pci_stats", INSTANCES, MEMBERS}
)
# A host that takes more counts as unbounded.
ENDLESS = 100_000
# About how many combinations of host and number are judged at a time.
_CASES = 20_000
# How many instances a request has: at first a few and at most many, and in between this share of
# those before it. So nobody waits for one request much longer than for all before it together.
FEW, MANY, _SHARE = 8, 1000, 8
# How many instances are placed without another bound.
MAX_INSTANCES = 100_000
# The largest number in a column of the inventory.
LARGEST_SIZE = 2**31 - 1
# No uuid, so no instance on any host has such a name.
_NAME = "new instance {}"


@dataclass(frozen=True, slots=True)
class Simulator:
    """How a scheduler decides: its driver's decide() with the plan of that.

    one_by_one is set where the driver does not place the instances of a request one after the other
    as pipeline.decide() does. progress is called before each decision with the number of instances
    placed. Counting ends early, and says that more may fit, once may_go_on() is false.
    """

    decide: Callable[[HostTable, Request], Decision]
    plan: Plan
    one_by_one: bool = False
    progress: Callable[[int], None] = lambda _: None
    may_go_on: Callable[[], bool] = lambda: True

    @classmethod
    def of(
        cls,
        driver: BaseDriver,
        progress: Callable[[int], None] = lambda _: None,
        may_go_on: Callable[[], bool] = lambda: True,
    ) -> Self:
        """Return how a driver decides. One with a decide() of its own is asked one by one."""
        in_order = type(driver).decide is FilterScheduler.decide
        return cls(driver.decide, driver.plan, not in_order, progress, may_go_on)


@dataclass(slots=True)
class Filling:
    """Instances of one request that were placed on hosts, by row of their table.

    spec is that of the next instance, which sees those before it if it has a server group. is_full
    is set where no host takes it; without it more may fit.
    """

    spec: RequestSpec
    rows: Counter[int] = field(default_factory=Counter)
    is_full: bool = False


def fill(
    hosts: HostTable, spec: RequestSpec, simulator: Simulator, most: int | None = None
) -> Filling:
    """Place instances on hosts, a working copy, until no host takes another one, or up to most.

    Without a bound it is MAX_INSTANCES where they have to be placed, and none where hosts are
    counted side by side. A random choice is seeded by the number of the instance, from 0.
    """
    if _fit_one_request(spec, simulator):
        found = bulk_capacity(hosts, spec, simulator.plan, most, simulator.may_go_on)
        if found is not None and (most is None or found.total <= most):
            for name, change in _changes(spec).items():
                values = getattr(hosts, name)[found.rows] + change * found.counts
                hosts.write(found.rows.tolist(), name, values.tolist())
            rows = Counter(dict(zip(found.rows.tolist(), found.counts.tolist(), strict=True)))
            return Filling(spec, rows, not found.is_endless and found.total != most)
    filling, bound = Filling(spec), MAX_INSTANCES if most is None else most
    placed = 0
    while not filling.is_full and placed < bound and simulator.may_go_on():
        several = _fit_one_request(filling.spec, simulator)
        count = min(max(FEW, placed // _SHARE), MANY) if several else 1
        _place(hosts, filling, simulator, placed, min(count, bound - placed))
        placed = filling.rows.total()
    simulator.progress(filling.rows.total())
    return filling


def fill_in_turns(
    hosts: HostTable, specs: Sequence[RequestSpec], simulator: Simulator, most: int
) -> list[Filling]:
    """Place an instance of each request in turn until no host takes the next one.

    Requests of one server group, the same object, see the members of each other.
    """
    fillings = [Filling(each) for each in specs]
    group = specs[0].instance_group
    is_shared = group is not None and all(each.instance_group is group for each in specs)
    for placed, filling in zip(range(most), cycle(fillings), strict=False):
        _place(hosts, filling, simulator, placed, 1)
        if filling.is_full or not simulator.may_go_on():
            break
        if is_shared:
            for other in fillings:
                other.spec = other.spec.for_instance(None)
                other.spec.instance_group = filling.spec.instance_group
    simulator.progress(sum(each.rows.total() for each in fillings))
    return fillings


def _place(
    hosts: HostTable, filling: Filling, simulator: Simulator, first: int, count: int
) -> None:
    """Place count instances, numbered from first on, and count those for which it succeeds.

    A request that fails has consumed all instances before the one without a host.
    """
    simulator.progress(first)
    uuids = [_NAME.format(first + each) for each in range(count)]
    request = Request(filling.spec.for_instance(uuids[0]), uuids, seed=first)
    failure = simulator.decide(hosts, request).shortage
    rows = {uuid: row for uuid in uuids for row in hosts.instances.rows_of(uuid)}
    filling.rows.update(rows.values())
    if filling.spec.instance_group is not None:
        names = [hosts.get(row, "host") for row in rows.values()]
        filling.spec = filling.spec.for_instance(None, names)
        assert filling.spec.instance_group is not None
        filling.spec.instance_group.members += rows
    # A driver that decides nothing would go on without an end.
    filling.is_full = failure is not None or not rows


def _fit_one_request(spec: RequestSpec, simulator: Simulator) -> bool:
    """Return whether the instances of one request fare as those of many requests.

    A random choice makes no difference: what fits on a host does not depend on other hosts. Only
    the first member of a group may bind those that follow, and it is placed alone.
    """
    if simulator.one_by_one:
        return False
    return all(is_repeatable(each, spec) for each in simulator.plan.filters if applies(each, spec))


def is_repeatable(rule: BaseHostFilter, spec: RequestSpec) -> bool:
    """Return whether a filter has the same verdicts in a new request as in the old one.

    One that is called for each instance has to judge a host by its row alone. What one says that is
    called once for a request, instances do not change, unless it reads what they do.
    """
    if ask_plugin(rule.run_filter_for_index, 1, default=True):
        return is_row_local(rule, spec)
    columns = _columns_of(rule, spec)
    if columns is None:
        # One that judges by rows, and cannot say which columns, may read any.
        return not rule.row_local
    return _CHANGED.isdisjoint(columns)


def _columns_of(rule: BaseHostFilter, spec: RequestSpec) -> tuple[str, ...] | None:
    """Return the columns that a filter reads, None where they are not known."""
    return ask_plugin(rule.columns_read, spec, default=None)


class BulkCapacity(NamedTuple):
    """The number of instances that fit on each of these rows; more may if is_endless."""

    rows: Rows
    counts: Rows
    is_endless: bool

    @property
    def total(self) -> int:
        return int(self.counts.sum())


def bulk_capacity(
    hosts: HostTable,
    spec: RequestSpec,
    plan: Plan,
    most: int | None = None,
    may_go_on: Callable[[], bool] = lambda: True,
) -> BulkCapacity | None:
    """Return how many instances fit on each host; None where that depends on other instances.

    hosts is a working copy. All filters have to be repeatable. The count stops above most, and when
    may_go_on() is false.
    """
    if spec.instance_group or not consumes_numbers_only(hosts, spec):
        return None
    rules = [each for each in filters_for(plan.filters, spec, 1) if applies(each, spec)]
    candidates, _ = allowed(hosts, spec, plan)
    left, _ = filter_hosts(hosts, spec, plan.filters, candidates)
    rows = np.flatnonzero(left)
    counts, changes = np.ones(len(rows), np.int64), _changes(spec)
    columns = {name for each in rules for name in _columns_of(each, spec) or ()}
    unfinished = np.arange(len(rows))
    # Instances change nothing that filters read.
    if columns.isdisjoint(name for name, change in changes.items() if change):
        counts[:] = ENDLESS
    bound = math.inf if most is None else most
    while len(unfinished) and counts.max() < ENDLESS and counts.sum() <= bound and may_go_on():
        ahead = max(1, _CASES // len(unfinished))
        times = np.repeat(counts[unfinished], ahead) + np.tile(np.arange(ahead), len(unfinished))
        part = hosts.part(np.repeat(rows[unfinished], ahead), changes, times)
        masks = [mask_of(rule, part, spec) for rule in rules]
        passes = np.logical_and.reduce([part.present, *masks]).reshape(-1, ahead)
        has_room = passes.all(axis=1)
        counts[unfinished] += np.where(has_room, ahead, passes.argmin(axis=1))
        unfinished = unfinished[has_room]
    return BulkCapacity(rows, counts, bool(len(unfinished)))


def _changes(spec: RequestSpec) -> dict[str, int]:
    return Consumption(spec.vcpus, spec.memory_mb, spec.disk_mb).changes


def max_size(
    find: Callable[[int], Candidate | None], start: int = 1
) -> tuple[int, Candidate | None]:
    """Return the largest size for which find() returns a host, and that host; 0 without any.

    It is LARGEST_SIZE where no size that can be stored is too large. Where one size is too large,
    all above it have to be. The search begins at start.
    """
    low, high, size = 0, LARGEST_SIZE + 1, max(1, start)
    best: Candidate | None = None
    while low + 1 < high:
        host = find(size)
        if host is None:
            high = size
        else:
            low, best = size, host
        size = min(2 * low, LARGEST_SIZE) if high > LARGEST_SIZE else (low + high) // 2
        size = max(size, low + 1)
    return low, best
