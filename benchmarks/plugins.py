# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What each filter and each weigher costs at 10,000 hosts, called as the pipeline calls it.

Every plug-in gets a request that concerns it. Printed are the median and the worst of many calls,
and the first call by itself: it works out what later ones find remembered.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np
from stevedore import ExtensionManager

from benchmarks.fleet import TOPOLOGIES, a_fleet
from benchmarks.requests import SETTINGS, request_for
from scheduler.decision.host_table import HostTable

FILTERS = "berthmaster.scheduler.filters"
WEIGHERS = "berthmaster.scheduler.weighers"
LIMIT_MS = 0.3
# What they look at is a document with its own state on every host.
# Nothing concerns it: every host passes.
UNCONCERNED = {"AllHostsFilter"}
BY_TOPOLOGY = {"NUMATopologyFilter", "PciPassthroughFilter"}


@dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds of one plug-in; per_value_us is for those that look at every document."""

    kind: str
    name: str
    median_ms: float
    worst_ms: float
    first_ms: float
    hosts_left: int
    per_value_us: float | None = None

    @property
    def verdict(self) -> str:
        if self.per_value_us is not None:
            return f"{self.per_value_us:.1f} us for each distinct topology"
        return "" if self.median_ms <= LIMIT_MS else f"above {LIMIT_MS} ms"


def costs(hosts: HostTable, calls: int) -> Iterator[Cost]:
    """Yield the cost of every installed filter and weigher."""
    for name, plugin in _installed(FILTERS):
        yield _filter_cost(hosts, name, plugin(**SETTINGS.get(name, {})), calls)
    for name, plugin in _installed(WEIGHERS):
        yield _weigher_cost(
            hosts, name, plugin(**{"multiplier": 1.0} | SETTINGS.get(name, {})), calls
        )


def _filter_cost(hosts: HostTable, name: str, rule: Any, calls: int) -> Cost:
    spec = request_for(name)
    if not rule.applies(spec) and name not in UNCONCERNED:
        raise ValueError(f"the request for {name} does not concern it")
    first, times = _timed(hosts, calls, lambda copy: rule.applies(spec) and rule.mask(copy, spec))
    left = int(np.count_nonzero(rule.mask(hosts.working_copy(), spec) & hosts.present))
    # Later calls find the answers for this request remembered, as far as hosts did not change.
    each = 1000 * first / TOPOLOGIES if name in BY_TOPOLOGY else None
    return Cost("filter", name, median(times), max(times), first, left, each)


def _weigher_cost(hosts: HostTable, name: str, weigher: Any, calls: int) -> Cost:
    spec, rows = request_for(name), np.flatnonzero(hosts.present)
    if not weigher.applies(spec):
        raise ValueError(f"the request for {name} does not concern it")

    def call(copy: HostTable) -> None:
        weigher.multipliers(copy, rows)
        weigher.weigh(copy, spec)

    first, times = _timed(hosts, calls, call)
    return Cost("weigher", name, median(times), max(times), first, len(hosts))


def _timed(
    hosts: HostTable, calls: int, call: Callable[[HostTable], object]
) -> tuple[float, list[float]]:
    """Return the milliseconds of the first call on a new process's table, and of later ones."""
    times = []
    for _ in range(calls + 1):
        copy = hosts.working_copy()
        began = time.perf_counter()
        call(copy)
        times.append(1000 * (time.perf_counter() - began))
    return times[0], times[1:]


def _installed(namespace: str) -> list[tuple[str, Any]]:
    return sorted((each.name, each.plugin) for each in ExtensionManager(namespace))


def report(found: list[Cost], hosts: int) -> str:
    """Return the costs as a table."""
    lines = [f"{'plug-in':38} {'median':>8} {'worst':>8} {'first':>8}   ms at {hosts} hosts"]
    lines += [
        f"{each.name:38} {each.median_ms:8.3f} {each.worst_ms:8.3f} {each.first_ms:8.3f}"
        f"   {each.verdict}".rstrip()
        for each in found
    ]
    over = [each.name for each in found if each.verdict.startswith("above")]
    lines.append(f"{len(found)} plug-ins, above {LIMIT_MS} ms: {', '.join(over) or 'none'}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=10_000, metavar="N")
    parser.add_argument("--calls", type=int, default=101, metavar="N")
    parser.add_argument("--json", metavar="FILE", help="Write the figures there as well.")
    asked = parser.parse_args()
    found = list(costs(a_fleet(asked.hosts), asked.calls))
    print(report(found, asked.hosts))
    if asked.json:
        with open(asked.json, "w", encoding="utf-8") as file:
            json.dump([asdict(each) for each in found], file, indent=1)


if __name__ == "__main__":
    main()
