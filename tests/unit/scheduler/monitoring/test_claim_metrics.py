# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.monitoring.claim_metrics: pending claims, their age, and a database away."""

from threading import Event

import pytest
from prometheus_client import CollectorRegistry

from inventory import compute_nodes
from inventory.database_errors import DatabaseUnavailable
from inventory.engine import Database
from scheduler.monitoring import claim_metrics
from scheduler.monitoring.claim_metrics import ClaimMetrics
from tests.claimed import claim, let_pass
from tests.databases import a_node, execute, save
from tests.fixtures.daemons.process import PATIENCE


class Counted:
    """A database that counts reads, and may hang or be away."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.reads = 0
        self.is_away = False
        self.answers = Event()
        self.answers.set()

    def read(self, work):
        self.reads += 1
        self.answers.wait()
        if self.is_away:
            raise DatabaseUnavailable("gone")
        return self._database.read(work)


@pytest.fixture
def counted(database):
    return Counted(database)


@pytest.fixture
def look(counted):
    """Return what looks at the metrics: number, overdue ones and the age of the oldest."""
    metrics = ClaimMetrics(counted)

    def values():
        registry = CollectorRegistry()
        registry.register(metrics)
        names = [name for name, _ in claim_metrics.METRICS]
        return tuple(map(registry.get_sample_value, names))

    values.metrics = metrics
    return values


@pytest.fixture
def node(database):
    save(database, a_node())
    (found,) = database.read(compute_nodes.all_live)
    return found


def test_pending_claims_count_and_others_do_not(database, look, node):
    for uuid in ("u1", "u2", "u3"):
        claim(database, uuid, node)
    execute(database, "UPDATE allocations SET state = 'confirmed' WHERE instance_uuid = 'u1'")
    execute(database, "UPDATE allocations SET state = 'alternate' WHERE instance_uuid = 'u2'")
    number, overdue, age = look()
    assert (number, overdue) == (1, 0)
    assert 0 <= age < 60


def test_claims_beyond_their_lease_are_overdue(database, look, node):
    claim(database, "u1", node)
    let_pass(database, 1000)
    claim(database, "u2", node)
    number, overdue, age = look()
    assert (number, overdue) == (2, 1)
    assert 1000 <= age < 1060


def test_without_claims_nothing_is_old(look):
    assert look() == (0, 0, 0)


def test_it_is_read_again_only_after_a_while(database, counted, look, node):
    assert look() == (0, 0, 0)
    claim(database, "u1", node)
    assert look()[0] == 0
    assert counted.reads == 1
    look.metrics._read_at -= claim_metrics.INTERVAL
    assert look()[0] == 1
    assert counted.reads == 2


def test_without_the_database_there_are_no_values_and_the_next_look_asks_again(counted, look):
    counted.is_away = True
    assert look() == (None, None, None)
    counted.is_away = False
    assert look() == (0, 0, 0)


def test_a_database_that_hangs_is_asked_once_and_does_not_hold_up_for_long(counted, look):
    look.metrics.timeout = 0.01
    counted.answers.clear()
    assert look() == look() == (None, None, None)
    assert counted.reads == 1
    counted.answers.set()
    look.metrics.timeout = PATIENCE
    assert look() == (0, 0, 0)
