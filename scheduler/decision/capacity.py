# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How many instances a table of hosts takes: as many as a loop of requests for one would place.

Where it makes no difference who comes before whom, all hosts are looked at side by side (see room).
Otherwise instances are placed; many in one request where they cannot tell that from requests of
their own, which is a good deal faster.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import cycle

from scheduler.decision.host_table import HostTable
from scheduler.decision.outcome import Decision
from scheduler.decision.pipeline import Plan, Request
from scheduler.decision.plugin_calls import applies
from scheduler.decision.refusing import Refusals, refusals
from scheduler.decision.room import asks_the_same, room
from scheduler.objects.request_spec import RequestSpec

# How many instances are asked for at a time, and after how many their number is told.
MANY = 1000
# How many are placed where nobody says how many.
MOST = 100_000
# No uuid: no instance that is anywhere has such a name.
_NAME = "new instance {}"


@dataclass(frozen=True, slots=True)
class Means:
    """How a scheduler decides: its driver's decide() with the plan of that.

    one_by_one says that the driver does not place the instances of a request one after the other as
    pipeline.decide() does. tell is given now and then how many instances were placed.
    """

    decide: Callable[[HostTable, Request], Decision]
    plan: Plan
    one_by_one: bool = False
    tell: Callable[[int], None] = lambda _: None


@dataclass(slots=True)
class Filling:
    """Instances of one request that are put on hosts, by row of their table.

    spec is that of the next instance, which sees those before it if it has a server group. is_full
    says that there is no place for it.
    """

    spec: RequestSpec
    rows: Counter[int] = field(default_factory=Counter)
    is_full: bool = False

    def take(self, hosts: HostTable, rows: dict[str, int]) -> None:
        """Count instances, given as {uuid: row}, and let the group know of them."""
        self.rows.update(rows.values())
        if self.spec.instance_group is not None:
            names = [hosts.get(row, "host") for row in rows.values()]
            self.spec = self.spec.for_instance(None, names)
            assert self.spec.instance_group is not None
            self.spec.instance_group.members += rows


@dataclass(frozen=True, slots=True)
class Share:
    """How many instances a host takes, and why not one more: every filter that refuses it.

    No filter refuses it where the number of instances was bounded, or where the driver has a rule
    of its own.
    """

    host: str
    nodename: str
    count: int
    refusals: Refusals = ()


def fill(hosts: HostTable, spec: RequestSpec, means: Means, most: int | None = None) -> Filling:
    """Put instances on hosts, a working copy, until there is no place for another, or most.

    Without a bound it is MOST where they have to be placed, and none where hosts are looked at side
    by side. A random choice among the best is seeded by the number of the instance, from 0.
    """
    found = room(hosts, spec, means.plan, most) if _can_come_at_once(spec, means) else None
    if found is not None and (most is None or found.total <= most):
        found.take(hosts, spec)
        rows = Counter(dict(zip(found.rows.tolist(), found.counts.tolist(), strict=True)))
        return Filling(spec, rows, not found.is_endless and found.total != most)
    return _one_after_the_other(hosts, spec, means, MOST if most is None else most)


def _one_after_the_other(hosts: HostTable, spec: RequestSpec, means: Means, most: int) -> Filling:
    filling = Filling(spec)
    while not filling.is_full and filling.rows.total() < most:
        placed = filling.rows.total()
        at_once = _can_come_at_once(filling.spec, means)
        _add(hosts, filling, means, placed, min(MANY if at_once else 1, most - placed))
    means.tell(filling.rows.total())
    return filling


def fill_in_turns(
    hosts: HostTable, specs: Sequence[RequestSpec], means: Means, most: int
) -> list[Filling]:
    """Put instances of several kinds on hosts in turns until there is no place for the next one.

    Those of one server group, the same object, see each other.
    """
    fillings = [Filling(each) for each in specs]
    group = specs[0].instance_group
    is_shared = group is not None and all(each.instance_group is group for each in specs)
    for placed, filling in zip(range(most), cycle(fillings), strict=False):
        _add(hosts, filling, means, placed, 1)
        if filling.is_full:
            break
        if is_shared:
            for other in fillings:
                other.spec = other.spec.for_instance(None)
                other.spec.instance_group = filling.spec.instance_group
    means.tell(sum(each.rows.total() for each in fillings))
    return fillings


def shares(hosts: HostTable, filling: Filling, plan: Plan) -> tuple[list[Share], int]:
    """Return what each host takes, the most first, and how many hosts the request leaves out.

    hosts is the table as the filling has left it. Those that are left out are in none of the
    aggregates that are asked for, or the like; nothing of theirs limits anything.
    """
    found = [
        Share(hosts.get(row, "host"), hosts.get(row, "nodename"), filling.rows[row], refused)
        for row, refused in refusals(hosts, filling.spec, plan).items()
    ]
    found.sort(key=lambda each: (-each.count, each.host, each.nodename))
    return found, len(hosts) - len(found)


def _add(hosts: HostTable, filling: Filling, means: Means, first: int, count: int) -> None:
    """Ask for so many instances, whose numbers begin with the first, and count those placed.

    A request that fails has placed on the table all before the one for which there is no host.
    """
    if first % MANY == 0:
        means.tell(first)
    uuids = [_NAME.format(first + each) for each in range(count)]
    request = Request(filling.spec.for_instance(uuids[0]), uuids, seed=first)
    shortage = means.decide(hosts, request).shortage
    rows = {uuid: row for uuid in uuids for row in hosts.residents.rows_of(uuid)}
    filling.take(hosts, rows)
    # A driver that decides nothing is content with that.
    filling.is_full = shortage is not None or not rows


def _can_come_at_once(spec: RequestSpec, means: Means) -> bool:
    """Return whether the instances of one request fare as those of many requests.

    A random choice makes no difference: what fits on a host is the same whoever went to others
    before. Only the first member of a group may bind those that follow, and it comes alone.
    """
    if means.one_by_one:
        return False
    return all(asks_the_same(each, spec) for each in means.plan.filters if applies(each, spec))
