# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Metrics of the hosts in the host cache, read when they are collected."""

import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from oslo_config import cfg
from prometheus_client.core import GaugeMetricFamily

from conf.service import liveness_limit
from inventory.fits import limit
from inventory.queries.fleet import STATES
from scheduler.host_cache.cache import HostCache
from scheduler.hosts.aggregate_metadata import split_values
from scheduler.hosts.resources import DISK, MEMORY, VCPUS
from scheduler.hosts.table import HostTable

UP, DISABLED, MAINTENANCE, DOWN, FORCED_DOWN, UNSERVED = range(len(STATES))
# How the reason begins that inventory.services gives for a host in maintenance.
IN_MAINTENANCE = "in maintenance"
QUANTILES = (0.5, 0.9, 1.0)
MIB = 2**20
# By metric: the resource, and how many of the metric's unit one of it is.
_RESOURCES = {"vcpus": (VCPUS, 1), "memory_bytes": (MEMORY, MIB), "disk_bytes": (DISK, MIB)}

Amounts = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]


class HostMetrics:
    """A Prometheus collector. database_time returns the time of the database's clock, or None."""

    def __init__(
        self, host_cache: HostCache, conf: cfg.ConfigOpts, database_time: Callable[[], float | None]
    ) -> None:
        self._host_cache = host_cache
        self._conf = conf
        self._database_time = database_time

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the metrics of the host cache as it is, without a refresh."""
        yield GaugeMetricFamily(
            "berthmaster_view_age_seconds",
            "Time since the host cache was last read from the database.",
            self._host_cache.age,
        )
        zone, alive_within = self._conf.default_availability_zone, liveness_limit(self._conf)
        with self._host_cache.current(max_age=math.inf) as hosts:
            groups = HostGroups(hosts, zone, alive_within)
            metrics = [*_metrics(hosts, groups, self._database_time())]
        yield from metrics


class HostGroups:
    """The present hosts by zone and state. Hosts without a zone are in the default one."""

    def __init__(self, hosts: HostTable, default_zone: str, alive_within: float) -> None:
        self.states = _states(hosts, alive_within)

        def zone_of(aggregates: Any) -> str:
            # An aggregate may name several.
            return ",".join(sorted(split_values(aggregates, "availability_zone"))) or default_zone

        values = hosts.memo_values("aggregates", ("zone", default_zone), zone_of, np.object_)
        # The default zone always has its metrics, also without hosts.
        self.zones, codes = np.unique([default_zone, *values], return_inverse=True)
        zones = codes[1:][hosts.codes("aggregates")] if len(values) else self.states
        self._codes = (zones * len(STATES) + self.states)[hosts.present]

    def sums(self, amounts: Amounts | None = None) -> Iterator[tuple[tuple[str, str], float]]:
        """Yield the sum of an amount of each host, or their number, by zone and state."""
        names = product(self.zones.tolist(), STATES)
        size = len(self.zones) * len(STATES)
        yield from zip(names, np.bincount(self._codes, amounts, size).tolist(), strict=True)


def _metrics(
    hosts: HostTable, groups: HostGroups, now: float | None
) -> Iterator[GaugeMetricFamily]:
    gauge = GaugeMetricFamily(
        "berthmaster_hosts",
        "Nodes by zone and by the state of their compute service.",
        labels=["zone", "state"],
    )
    for names, count in groups.sums():
        gauge.add_metric(names, count)
    yield gauge
    for name, kinds in _resources(hosts).items():
        gauge = GaugeMetricFamily(
            f"berthmaster_{name}",
            "What nodes have, use, and may use with their allocation ratios.",
            labels=["zone", "state", "kind"],
        )
        for kind, amounts in kinds.items():
            for names, amount in groups.sums(amounts):
                gauge.add_metric([*names, kind], amount)
        yield gauge
    yield _audit_ages(hosts.updated[hosts.present & (groups.states < DOWN)], now)


def _resources(hosts: HostTable) -> dict[str, dict[str, Amounts]]:
    present, found = hosts.present, {}
    for name, (kind, unit) in _RESOURCES.items():
        total, used = kind.amounts(hosts, present)
        # A host without a ratio takes no instances.
        most = np.nan_to_num(limit(total, getattr(hosts, kind.ratio)[present]))
        found[name] = {"total": total * unit, "used": used * unit, "limit": most * unit}
    return found


def _audit_ages(updated: Amounts, now: float | None) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(
        "berthmaster_agents_audit_age_seconds",
        "Time since rows of nodes with living agents were written; percentile 100 is the oldest"
        " row.",
        labels=["percentile"],
    )
    known = updated[np.isfinite(updated)]
    # Without the database's time the ages are unknown.
    if now is not None and len(known):
        ages = np.maximum(now - known, 0.0)
        for quantile, age in zip(QUANTILES, np.quantile(ages, QUANTILES), strict=True):
            gauge.add_metric([f"{100 * quantile:g}"], float(age))
    return gauge


def _states(hosts: HostTable, alive_within: float) -> Codes:
    def in_maintenance(reason: Any) -> bool:
        return str(reason or "").startswith(IN_MAINTENANCE)

    states = np.where(hosts.service_disabled, DISABLED, UP)
    maintained = hosts.memo("disabled_reason", "in_maintenance", in_maintenance, np.bool_)
    states[hosts.service_disabled & maintained] = MAINTENANCE
    # So written, NaN is not alive.
    states[~(np.abs(hosts.heartbeat_age) <= alive_within)] = DOWN
    states[hosts.forced_down] = FORCED_DOWN
    states[hosts.unserved] = UNSERVED
    return states.astype(np.int64)
