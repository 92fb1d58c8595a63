# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What each filter and each weigher costs at 10,000 hosts, called as the pipeline calls it.

Every plug-in gets a request that concerns it. Printed are the median and the worst of many calls,
and the first call by itself: it works out what later ones find remembered.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from stevedore import ExtensionManager

from benchmarks import program
from benchmarks.figures import OURS, Figure
from benchmarks.fleet import TOPOLOGIES, a_fleet
from benchmarks.requests import SETTINGS, request_for
from scheduler.hosts.table import HostTable

FILTERS = "berthmaster.scheduler.filters"
WEIGHERS = "berthmaster.scheduler.weighers"
LIMIT_MS = 0.3
# Nothing concerns it: every host passes.
UNCONCERNED = {"AllHostsFilter"}
# What they look at is a document with its own state on every host.
BY_TOPOLOGY = {"NUMATopologyFilter", "PciPassthroughFilter"}
BY_VALUE = "us_per_topology"


def measure(asked: argparse.Namespace) -> list[Figure]:
    """Return the cost of every installed filter and weigher."""
    hosts, calls = a_fleet(asked.hosts), 7 if asked.quick else asked.calls
    filters, weighers = _installed(FILTERS), _installed(WEIGHERS)
    found = [_filter_cost(hosts, name, plugin, calls) for name, plugin in filters]
    return found + [_weigher_cost(hosts, name, plugin, calls) for name, plugin in weighers]


def _filter_cost(hosts: HostTable, name: str, plugin: Any, calls: int) -> Figure:
    spec, rule = request_for(name), plugin(**SETTINGS.get(name, {}))
    if not rule.applies(spec) and name not in UNCONCERNED:
        raise ValueError(f"the request for {name} does not concern it")
    first, times = _timed(hosts, calls, lambda copy: rule.applies(spec) and rule.mask(copy, spec))
    left = int(np.count_nonzero(rule.mask(hosts.working_copy(), spec) & hosts.present))
    facts = {"first_ms": first, "hosts_left": left}
    if name in BY_TOPOLOGY:
        # Later calls find the answers for this request remembered, as far as hosts did not change.
        facts[BY_VALUE] = 1000 * first / TOPOLOGIES
    return Figure("filter", OURS, "ms", times, {"name": name, "hosts": len(hosts)}, facts)


def _weigher_cost(hosts: HostTable, name: str, plugin: Any, calls: int) -> Figure:
    spec, rows = request_for(name), np.flatnonzero(hosts.present)
    weigher = plugin(**{"multiplier": 1.0} | SETTINGS.get(name, {}))
    if not weigher.applies(spec):
        raise ValueError(f"the request for {name} does not concern it")

    def call(copy: HostTable) -> None:
        weigher.multipliers(copy, rows)
        weigher.weigh(copy, spec)

    first, times = _timed(hosts, calls, call)
    case = {"name": name, "hosts": len(hosts)}
    return Figure("weigher", OURS, "ms", times, case, {"first_ms": first})


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


def report(found: Sequence[Figure]) -> str:
    """Return the costs as a table."""
    hosts = found[0].case["hosts"]
    lines = [f"{'plug-in':38} {'median':>8} {'worst':>8} {'first':>8}   ms at {hosts} hosts"]
    lines += [
        f"{each.case['name']:38} {each.median:8.3f} {max(each.turns):8.3f}"
        f" {each.facts['first_ms']:8.3f}   {_verdict(each)}".rstrip()
        for each in found
    ]
    over = [each.case["name"] for each in found if _verdict(each).startswith("above")]
    lines.append(f"{len(found)} plug-ins, above {LIMIT_MS} ms: {', '.join(over) or 'none'}")
    return "\n".join(lines)


def _verdict(found: Figure) -> str:
    if BY_VALUE in found.facts:
        return f"{found.facts[BY_VALUE]:.1f} us for each distinct topology"
    return "" if found.median <= LIMIT_MS else f"above {LIMIT_MS} ms"


def main() -> None:
    options = program.parser(__doc__)
    options.add_argument("--hosts", type=int, default=10_000, metavar="N")
    options.add_argument("--calls", type=int, default=31, metavar="N")
    program.run(options, measure, report)


if __name__ == "__main__":
    main()
