# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the metrics and the health of standbys."""

import pytest

from inventory import compute_nodes, reservations
from inventory.claims import standbys
from inventory.claims.types import Standby
from inventory.database_errors import DatabaseUnavailable
from scheduler.monitoring.standby_metrics import HeldMetrics, ReservationMetrics, StandbyMetrics
from tests.databases import a_node, a_uuid, save


def protect(database, name, mode, node_id=None):
    made = Standby(a_uuid(name), 1, ["rack"], mode, (1, 1, 1), "{}", node_id=node_id)
    database.write(lambda connection: standbys.settle(connection, [made]))


def figures(metrics):
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in metrics.collect()
        for sample in family.samples
    }


def test_all_and_those_without_a_standby_are_counted_by_mode(database):
    protect(database, "a", "preferred")
    protect(database, "b", "preferred")
    assert figures(StandbyMetrics(database)) == {
        ("berthmaster_protected_instances",): 2,
        ("berthmaster_protected_instances_without_standby", "required"): 0,
        ("berthmaster_protected_instances_without_standby", "preferred"): 2,
    }
    assert StandbyMetrics(database).check() is None


def test_a_standby_that_is_required_and_missing_is_unhealthy(database):
    assert StandbyMetrics(database).check() is None
    protect(database, "a", "required")
    assert StandbyMetrics(database).check() == (
        "1 instance or reserved place has no standby that is required:"
        " see 'berthmaster failover status --without'"
    )


def test_what_nodes_hold_is_counted_in_units_of_metrics(database):
    save(database, a_node("h1"))
    (node,) = database.read(compute_nodes.all_live)
    for name, domain in (("a", "r1"), ("b", "r2")):
        made = Standby(a_uuid(name), 7, [domain], "required", (2, 3, 4), "{}", node_id=node.id)
        database.write(lambda connection, made=made: standbys.settle(connection, [made]))
    assert figures(HeldMetrics(database)) == {
        ("berthmaster_held_vcpus", "standbys"): 2,
        ("berthmaster_held_vcpus", "reservations"): 0,
        ("berthmaster_held_memory_bytes", "standbys"): 3 * 2**20,
        ("berthmaster_held_memory_bytes", "reservations"): 0,
        ("berthmaster_held_disk_bytes", "standbys"): 4 * 2**20,
        ("berthmaster_held_disk_bytes", "reservations"): 0,
    }


@pytest.mark.parametrize("number", [0, 3])
def test_places_that_others_are_in_are_counted(database, monkeypatch, number):
    if number:
        monkeypatch.setattr(reservations, "taken_by_others", lambda _: number)
    assert figures(ReservationMetrics(database)) == {
        ("berthmaster_reserved_places_taken_by_others",): number
    }


class Silent:
    """A database that does not answer."""

    def read(self, work):
        raise DatabaseUnavailable("gone")


def test_without_a_database_nothing_is_said():
    metrics = StandbyMetrics(Silent())
    assert figures(HeldMetrics(Silent())) == figures(ReservationMetrics(Silent())) == {}
    assert figures(metrics) == {}
    assert metrics.check() is None
