# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Metrics and health of the standbys in the database, which are those of all schedulers."""

from collections.abc import Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily

from inventory.claims import standby_rows
from inventory.engine import Database
from inventory.errors import counted
from inventory.objects.standby import PREFERRED, REQUIRED
from scheduler.monitoring.claim_metrics import SpacedReads

# Seconds between two reads.
INTERVAL = 10.0


class StandbyMetrics(SpacedReads[Mapping[str, int]]):
    """A Prometheus collector; without an answer of the database its metrics have no values."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, standby_rows.lacking, INTERVAL)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the metrics, read again if they are old."""
        found = self.latest()
        protected = GaugeMetricFamily(
            "berthmaster_protected_instances", "Instances that are to have standbys."
        )
        lacking = GaugeMetricFamily(
            "berthmaster_protected_instances_without_standby",
            "Protected instances that have no standby.",
            labels=["mode"],
        )
        if found is not None:
            protected.add_metric([], found["protected"])
            for mode in (REQUIRED, PREFERRED):
                lacking.add_metric([mode], found.get(mode, 0))
        yield protected
        yield lacking

    def check(self) -> str | None:
        """Return how many instances lack a standby that they have to have, if any does."""
        found = self.latest()
        number = found.get(REQUIRED, 0) if found else 0
        if not number:
            return None
        have = counted(number, "instance has", "instances have")
        return f"{have} no standby that is required: see 'berthmaster failover status --without'"
