# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Metrics and health of standbys, and of room that is held, in the database of all schedulers."""

from collections.abc import Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily

from inventory import reservations
from inventory.claims import standby_rows
from inventory.engine import Database
from inventory.errors import counted
from inventory.objects.standby import PREFERRED, REQUIRED
from inventory.promises import Promises, total
from inventory.queries import promised
from scheduler.monitoring.claim_metrics import SpacedReads

# Seconds between two reads: of standbys, and of what all nodes hold.
INTERVAL, HELD_INTERVAL = 10.0, 60.0
_MIB = 2**20
# By metric, how many of its unit one of a resource is, in the order of amounts.
_HELD = {"vcpus": 1, "memory_bytes": _MIB, "disk_bytes": _MIB}


class StandbyMetrics(SpacedReads[Mapping[str, int]]):
    """A Prometheus collector; without an answer of the database its metrics have no values."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, standby_rows.lacking, INTERVAL)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        found = self.latest()
        yield GaugeMetricFamily(
            "berthmaster_protected_instances",
            "Instances and reserved places that are to have standbys.",
            None if found is None else found["protected"],
        )
        lacking = GaugeMetricFamily(
            "berthmaster_protected_instances_without_standby",
            "Protected instances and reserved places that have no standby.",
            labels=["mode"],
        )
        if found is not None:
            for mode in (REQUIRED, PREFERRED):
                lacking.add_metric([mode], found.get(mode, 0))
        yield lacking

    def check(self) -> str | None:
        """Return how many instances lack a standby that they have to have, if any does."""
        found = self.latest()
        number = found.get(REQUIRED, 0) if found else 0
        if not number:
            return None
        have = counted(
            number, "instance or reserved place has", "instances and reserved places have"
        )
        return f"{have} no standby that is required: see 'berthmaster failover status --without'"


class ReservationMetrics(SpacedReads[int]):
    """A Prometheus collector of places in which others are; without an answer it has no value."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, reservations.taken_by_others, HELD_INTERVAL)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield GaugeMetricFamily(
            "berthmaster_reserved_places_taken_by_others",
            "Places of reservations that are taken by instances of other projects.",
            self.latest(),
        )


class HeldMetrics(SpacedReads[Promises]):
    """A Prometheus collector of the room that nodes hold; without an answer it has no values."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, lambda each: total(promised.read(each).values()), HELD_INTERVAL)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        found = self.latest()
        for at, (name, unit) in enumerate(_HELD.items()):
            gauge = GaugeMetricFamily(
                f"berthmaster_held_{name}",
                "What nodes hold for standbys and for reservations, as part of what is used.",
                labels=["kind"],
            )
            if found is not None:
                gauge.add_metric(["standbys"], found.standbys[at] * unit)
                gauge.add_metric(["reservations"], found.reserved[at] * unit)
            yield gauge
