# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Measures of the hosts as this scheduler sees them, taken when somebody asks for them."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from oslo_config import cfg
from prometheus_client.core import GaugeMetricFamily

from conf.service import liveness_limit
from inventory.fits import limit
from scheduler.decision.host_table import HostTable
from scheduler.host_view import HostView

# A host is in the last of these that is true of it.
STATES = ("up", "disabled", "maintenance", "down", "forced_down", "unserved")
UP, DISABLED, MAINTENANCE, DOWN, FORCED_DOWN, UNSERVED = range(len(STATES))
# What inventory.services says of a host in maintenance begins so.
IN_MAINTENANCE = "in maintenance"
QUANTILES = (0.5, 0.9, 1.0)
# Of the table, in terms of those that are shown.
UNITS = {"vcpus": 1, "memory_bytes": 2**20, "disk_bytes": 2**20}

Amounts = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Fleet:
    """What is read of the table: by host its state, its resources, the age of its row."""

    states: Codes
    resources: dict[str, dict[str, Amounts]]
    ages: Amounts


class HostMeasures:
    """A collector for a registry of Prometheus. database_time is the database's clock, or None."""

    def __init__(
        self, view: HostView, conf: cfg.ConfigOpts, database_time: Callable[[], float | None]
    ) -> None:
        self._view = view
        self._conf = conf
        self._database_time = database_time

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the measures of the view as it is; nothing is read for that."""
        age = self._view.age
        yield GaugeMetricFamily(
            "berthmaster_view_age_seconds",
            "Time since the view of the hosts was last read from the database.",
            age,
        )
        # However old.
        with self._view.current(math.inf) as hosts:
            fleet = _read(hosts, liveness_limit(self._conf), self._database_time())
        yield from _measures(fleet)


def _read(hosts: HostTable, alive_within: float, now: float | None) -> _Fleet:
    present = hosts.present
    states = _states(hosts, alive_within)
    updated = hosts.updated[present & (states < DOWN)]
    memory, disk = hosts.total_usable_ram_mb, hosts.total_usable_disk_gb * 1024
    resources = {
        "vcpus": (hosts.vcpus_total, hosts.vcpus_used, hosts.cpu_allocation_ratio),
        "memory_bytes": (memory, memory - hosts.free_ram_mb, hosts.ram_allocation_ratio),
        "disk_bytes": (disk, disk - hosts.free_disk_mb, hosts.disk_allocation_ratio),
    }
    return _Fleet(
        states[present],
        {
            name: _amounts(total[present], used[present], ratio[present], UNITS[name])
            for name, (total, used, ratio) in resources.items()
        },
        # Without the database's time nobody knows.
        np.zeros(0) if now is None else np.maximum(now - updated[np.isfinite(updated)], 0.0),
    )


def _states(hosts: HostTable, alive_within: float) -> Codes:
    def maintained(reason: Any) -> bool:
        return str(reason or "").startswith(IN_MAINTENANCE)

    states = np.where(hosts.service_disabled, DISABLED, UP)
    known = hosts.derived("disabled_reason", "watching", maintained, np.bool_)
    states[hosts.service_disabled & known] = MAINTENANCE
    # NaN is no age within the limit.
    states[~(np.abs(hosts.heartbeat_age) <= alive_within)] = DOWN
    states[hosts.forced_down] = FORCED_DOWN
    states[hosts.unserved] = UNSERVED
    return states.astype(np.int64)


def _amounts(total: Any, used: Any, ratio: Any, unit: int) -> dict[str, Amounts]:
    # A host without a ratio takes nothing.
    promised = np.nan_to_num(limit(total.astype(np.float64), ratio))
    return {"total": total * unit, "used": used * unit, "limit": promised * unit}


def _measures(fleet: _Fleet) -> Iterator[GaugeMetricFamily]:
    hosts = GaugeMetricFamily(
        "berthmaster_hosts", "Nodes by the state of their compute service.", labels=["state"]
    )
    for state, count in zip(STATES, _sums(fleet.states), strict=True):
        hosts.add_metric([state], count)
    yield hosts
    for name, kinds in fleet.resources.items():
        gauge = GaugeMetricFamily(
            f"berthmaster_{name}",
            "What nodes have, use, and may promise with their allocation ratios.",
            labels=["state", "kind"],
        )
        for kind, amounts in kinds.items():
            for state, amount in zip(STATES, _sums(fleet.states, amounts), strict=True):
                gauge.add_metric([state, kind], amount)
        yield gauge
    ages = GaugeMetricFamily(
        "berthmaster_agents_audit_age_seconds",
        "Time since rows of nodes with living agents were written; quantile 1 is the oldest.",
        labels=["quantile"],
    )
    if len(fleet.ages):
        for quantile, age in zip(QUANTILES, np.quantile(fleet.ages, QUANTILES), strict=True):
            ages.add_metric([f"{quantile:g}"], float(age))
    yield ages


def _sums(states: Codes, amounts: Amounts | None = None) -> Iterable[float]:
    found: list[float] = np.bincount(states, amounts, len(STATES)).tolist()
    return found
