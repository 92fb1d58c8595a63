# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""From what callers have seen to figures."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median, quantiles

from benchmarks.endtoend.callers import Load
from benchmarks.figures import OURS, Case, Figure

# So many values stand for the times of all calls: the least, the most, and each twentieth between.
STEPS = 20


def of_calls(who: str, seconds: Sequence[float], case: Case) -> Iterator[Figure]:
    """Yield how long calls took, in milliseconds: the median is p50, and p99 stands by itself."""
    times = [1000 * each for each in seconds]
    facts = {"calls": len(times)}
    yield Figure("select", who, "ms", spread(times), case, facts)
    yield Figure("select, p99", who, "ms", [_cuts(times, 100)[98]], case)


def of_load(who: str, load: Load, case: Case, processor: float) -> Iterator[Figure]:
    """Yield how long calls of many callers took, and how many were answered.

    processor is the seconds that those who serve were at work for all that was answered.
    """
    yield from of_calls(who, load.times, case)
    yield Figure(
        "select, p99 through p50", who, "x", [_cuts(load.times, 100)[98] / median(load.times)], case
    )
    facts = {"refused": load.refused}
    yield Figure("select, rate", who, "/s", load.rates, case, facts)
    yield Figure("placements", who, "/s", load.placements, case, facts)
    yield Figure("select, processor", who, "ms", [1000 * processor / load.calls], case)


def of_shared(
    load: Load, seconds: Mapping[str, float], conflicts: int, case: Case
) -> Iterator[Figure]:
    """Yield for how long broker and database were at work for a call, and lost claims.

    seconds are by the name of the daemon, conflicts those of all calls.
    """
    for name, each in seconds.items():
        yield Figure(
            f"select, processor of the {name}", OURS, "ms", [1000 * each / load.calls], case
        )
    if case.get("claims"):
        yield Figure("conflicts", OURS, "/1000 calls", [1000 * conflicts / load.calls], case)


def percentiles(times: Sequence[float], *of: int) -> list[float]:
    """Return these percentiles of some times."""
    cuts = _cuts(times, 100)
    return [cuts[each - 1] for each in of]


def spread(times: Sequence[float]) -> list[float]:
    """Return values that times are spread like: the median and the quartiles are theirs."""
    return [min(times), *_cuts(times, STEPS), max(times)]


def _cuts(times: Sequence[float], parts: int) -> list[float]:
    # On a machine that is busy otherwise there may be a single call.
    times = times if len(times) > 1 else 2 * list(times)
    return quantiles(times, n=parts, method="inclusive")
