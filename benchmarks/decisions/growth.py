# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How the cost of a decision grows with hosts and with instances.

An exponent of 1 is twice the cost for twice as many, 0 the same cost for any number.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import log
from statistics import linear_regression

from benchmarks.decisions.cases import Case
from benchmarks.figures import FLOOR, NOVA, OURS, Figure

# Fewer hosts cost what a decision costs without any, and say nothing of the rest.
FROM_HOSTS = 1_000
OF_HOSTS = 10_000


def exponent(costs: Mapping[int, float]) -> float:
    """Return the slope of log cost against log number, by least squares."""
    return linear_regression([log(each) for each in costs], [log(each) for each in costs.values()])[
        0
    ]


def growth(figures: Iterable[Figure]) -> Iterator[Figure]:
    """Yield exponents and the cost of a further instance, of all who have figures enough."""
    figures = list(figures)
    for who in (OURS, NOVA, FLOOR):
        costs = _costs(figures, who)
        by_hosts = {hosts: cost for (hosts, one), cost in costs.items() if one == 1}
        by_hosts = {hosts: cost for hosts, cost in by_hosts.items() if hosts >= FROM_HOSTS}
        if len(by_hosts) > 1:
            yield _exponent("growth with hosts", who, by_hosts, {"instances": 1})
        some = {number: cost for (hosts, number), cost in costs.items() if hosts == OF_HOSTS}
        if len(some) > 1:
            yield _exponent("growth with instances", who, some, {"hosts": OF_HOSTS})
            yield _further(who, some)


def _exponent(what: str, who: str, costs: Mapping[int, float], case: Mapping[str, int]) -> Figure:
    facts = {"from": min(costs), "to": max(costs)}
    return Figure(what, who, "exponent", [exponent(costs)], case, facts)


def _further(who: str, costs: Mapping[int, float]) -> Figure:
    """Return what each instance after the first costs, in the largest request."""
    most = max(costs)
    each = (costs[most] - costs[1]) / (most - 1)
    facts = {"instances": most, "of_first": each / costs[1]}
    return Figure("further instance", who, "ms", [each], {"hosts": OF_HOSTS}, facts)


def _costs(figures: Sequence[Figure], who: str) -> dict[tuple[int, int], float]:
    """Return medians by hosts and instances, of the matrix alone."""
    found = {}
    for each in figures:
        if (each.what, each.who) != ("decide", who):
            continue
        hosts, instances = each.case["hosts"], each.case["instances"]
        if each.case == Case(hosts, instances).to_dict():
            found[hosts, instances] = each.median
    return dict(sorted(found.items()))
