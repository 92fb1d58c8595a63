# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Measures of an agent: its audits, and what its nodes have by the rows that it wrote last.

What is claimed there since, by schedulers, is in their measures.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily

from compute_agent.storing import Stored
from compute_agent.virt.driver import DriverError
from inventory.engine import DatabaseUnavailable

# Seconds.
BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0)
KINDS = ("total", "used", "limit")
MIB, GIB = 2**20, 2**30


@dataclass(frozen=True, slots=True)
class _Node:
    """What counts of a row: amounts in the order of KINDS."""

    guests: int
    vcpus: tuple[float, ...]
    memory_bytes: tuple[float, ...]
    disk_bytes: tuple[float, ...]


class Measures:
    """Hears of audits from the manager, of rows from the tracker; a collector for a registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._audits = Counter("berthmaster_audits", "Audits, failed ones too.", registry=registry)
        self._seconds = Histogram(
            "berthmaster_audit_seconds",
            "Time of an audit, of all nodes or of some.",
            registry=registry,
            buckets=BUCKETS,
        )
        self._failures = Counter(
            "berthmaster_audit_failures",
            "Audits that failed, by what did not answer.",
            ["cause"],
            registry=registry,
        )
        for cause in ("hypervisor", "database", "other"):
            self._failures.labels(cause)
        self._rows = Counter(
            "berthmaster_rows_written", "Rows of nodes and instances.", registry=registry
        )
        self._nodes: dict[int, _Node] = {}
        self._connected = False
        # Why the last audit failed, where that is not the database's fault.
        self.failure = "no audit has ended yet"
        # Whether it failed for want of the database.
        self.lacks_database = False
        # On the monotonic clock: when the last audit ended that succeeded.
        self.audited_at: float | None = None
        registry.register(self)

    def audited(self, seconds: float, error: Exception | None) -> None:
        """Count an audit that is over, by what ended it."""
        self._audits.inc()
        self._seconds.observe(seconds)
        self.lacks_database = isinstance(error, DatabaseUnavailable)
        if error is None:
            self.failure, self._connected, self.audited_at = "", True, time.monotonic()
        elif self.lacks_database:
            self._failures.labels("database").inc()
        else:
            hypervisor = isinstance(error, DriverError)
            self._failures.labels("hypervisor" if hypervisor else "other").inc()
            self._connected = self._connected and not hypervisor
            self.failure = " ".join(str(error).split()) or repr(error)

    def hearing(self, tell: Callable[[Stored], None]) -> Callable[[Stored], None]:
        """Return tell, which counts the rows besides."""

        def told(stored: Stored) -> None:
            self._rows.inc(len(stored.nodes) + len(stored.instances))
            for row in stored.nodes:
                self._nodes.pop(row.id, None)
                if not row.deleted:
                    self._nodes[row.id] = _node(row)
            tell(stored)

        return told

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield what is so at the moment."""
        yield GaugeMetricFamily(
            "berthmaster_hypervisor_connected",
            "1 if the hypervisor answered when it was last asked.",
            float(self._connected),
        )
        age = GaugeMetricFamily(
            "berthmaster_audit_age_seconds",
            "Time since the end of the last audit that succeeded; there is none before.",
        )
        if self.audited_at is not None:
            age.add_metric([], time.monotonic() - self.audited_at)
        yield age
        yield from self._collect_nodes(tuple(self._nodes.values()))

    def _collect_nodes(self, nodes: tuple[_Node, ...]) -> Iterator[GaugeMetricFamily]:
        yield GaugeMetricFamily("berthmaster_nodes", "Nodes of this agent.", len(nodes))
        guests = sum(each.guests for each in nodes)
        yield GaugeMetricFamily("berthmaster_guests", "Guests on these nodes.", guests)
        for name in ("vcpus", "memory_bytes", "disk_bytes"):
            gauge = GaugeMetricFamily(
                f"berthmaster_node_{name}",
                "What these nodes have, use, and may promise with their allocation ratios.",
                labels=["kind"],
            )
            for position, kind in enumerate(KINDS):
                gauge.add_metric([kind], sum(getattr(each, name)[position] for each in nodes))
            yield gauge


def _node(row: Any) -> _Node:
    return _Node(
        guests=row.running_vms or 0,
        vcpus=_amounts(row.vcpus, row.vcpus_used, row.cpu_allocation_ratio, 1),
        memory_bytes=_amounts(row.memory_mb, row.memory_mb_used, row.ram_allocation_ratio, MIB),
        disk_bytes=_amounts(row.local_gb, row.local_gb_used, row.disk_allocation_ratio, GIB),
    )


def _amounts(total: int, used: int, ratio: float | None, unit: int) -> tuple[float, ...]:
    return total * unit, used * unit, total * (ratio or 0.0) * unit
