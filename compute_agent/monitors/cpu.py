# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The monitor cpu.virt_driver: how busy the CPUs of a node are, as its driver counts."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from compute_agent.monitors import Metric, Monitor
from compute_agent.virt.driver import CpuCounters, Driver, DriverAnswerUnusable, NodeName

KINDS = ("user", "kernel", "idle", "iowait")
# Events can let one audit follow another at once. A share of so little time would be noise, or of
# no time at all as the kernel counts, so what was measured last still holds.
SHORTEST = timedelta(seconds=5)
NOTHING = CpuCounters(user=0, kernel=0, idle=0, iowait=0, frequency_mhz=0)


@dataclass(frozen=True, slots=True)
class _Sample:
    time: datetime
    counters: CpuCounters
    metrics: list[Metric]


class CpuMonitor(Monitor):
    """Measures the time of all CPUs together since the last audit, and their frequency."""

    def __init__(
        self, conf: Any, driver: Driver, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        super().__init__(conf, driver)
        self._clock = clock
        self._last: dict[NodeName, _Sample] = {}

    def metrics(self, node: NodeName) -> Iterable[Metric]:
        """Return the ten metrics; raises DriverError, also if the counters stand still."""
        last, now = self._last.get(node), self._clock()
        # Not if the clock was set back meanwhile.
        if last is not None and timedelta(0) <= now - last.time < SHORTEST:
            return last.metrics
        counters = self.driver.cpu_counters(node)
        percents = shares(last.counters if last is not None else NOTHING, counters)
        if not percents:
            raise DriverAnswerUnusable("how busy the CPUs are", "its counters stand still")
        values = {"frequency": counters.frequency_mhz, **percents}
        values |= {f"{kind}.time": getattr(counters, kind) for kind in KINDS}
        source = self.conf.compute_driver
        found = [Metric(f"cpu.{name}", value, now, source) for name, value in values.items()]
        self._last[node] = _Sample(now, counters, found)
        return found


def shares(before: CpuCounters, now: CpuCounters) -> Mapping[str, float]:
    """Return what part of the time went where, with two digits and the rest cut off.

    Nothing if no time has passed. Counters that are less than before have begun anew, with the
    machine. That of iowait alone may also go back a little; then none of the time was waited.
    """
    old, new = _times(before), _times(now)
    if sum(new.values()) < sum(old.values()):
        old = _times(NOTHING)
    spent = {kind: max(new[kind] - old[kind], 0) for kind in KINDS}
    total = sum(spent.values())
    if not total:
        return {}
    parts = {f"{kind}.percent": time for kind, time in spent.items()}
    parts["percent"] = total - spent["idle"]
    # In whole numbers: the float 0.29 * 100 is a little less than 29, and that would be cut off.
    return {name: part * 100 // total / 100 for name, part in parts.items()}


def _times(counters: CpuCounters) -> dict[str, int]:
    return {kind: getattr(counters, kind) for kind in KINDS}
