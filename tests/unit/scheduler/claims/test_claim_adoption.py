# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The claims of a scheduler that died are watched by another one."""

import logging

import pytest

from inventory.database_errors import DatabaseUnavailable
from scheduler.claims import claim_adoption
from scheduler.claims.claim_adoption import ClaimAdoption
from scheduler.client.nova_conductor import DELETED, InstanceState
from tests.fixtures.daemons.process import wait_until
from tests.unit.scheduler.claims.test_claim_reconciler import BUILDING, FAILED, Nova, Watch
from tests.unit.scheduler.select_destinations.test_loop_requests import (
    U,
    a_scheduler,
    ask,
    claimed,
    cloud,
)

__all__ = ["cloud"]
ELSEWHERE = InstanceState(True, "h3", "active", None)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(claim_adoption, "AGE", 0.0)
    monkeypatch.setattr(claim_adoption, "INTERVAL", 0.01)


@pytest.fixture
def orphaned(cloud):
    """A claim of a scheduler that is no more, and what starts another scheduler's look for it."""
    ask(a_scheduler(cloud), U[0])
    assert claimed(cloud) == {U[0]: "h1"}
    ended = []

    def start(*answers, enabled=True, name="c1"):
        watch = Watch(cloud, Nova(*answers))
        adoption = ClaimAdoption(cloud, name, watch.reconciler, lambda: enabled)
        adoption.start()
        ended.extend((adoption.stop, watch.reconciler.stop))
        return watch

    yield start
    for stop in ended:
        stop()


@pytest.mark.parametrize("state", [DELETED, FAILED])
def test_it_is_released_when_its_instance_is_gone(orphaned, state):
    watch = orphaned(BUILDING, state)
    assert watch.is_empty()


# The claim may be of an operator, for a move that he has planned.
@pytest.mark.parametrize("state", [BUILDING, ELSEWHERE])
def test_it_stays_while_its_instance_may_come(orphaned, cloud, state):
    watch = orphaned(state)
    assert watch.has_asked(4)
    assert claimed(cloud) == {U[0]: "h1"}


def test_one_scheduler_of_all_looks(orphaned):
    first = orphaned(BUILDING)
    assert first.has_asked(2)
    second = orphaned(BUILDING, name="c2")
    assert first.has_asked(first.nova.asked + 10)
    assert second.nova.asked == 0


def test_nobody_looks_who_asks_no_conductor(orphaned, monkeypatch):
    monkeypatch.setattr(claim_adoption.leases, "hold", lambda *_: pytest.fail("it has looked"))
    watch = orphaned(DELETED, enabled=False)
    assert not wait_until(lambda: watch.nova.asked, 0.2)


def test_it_goes_on_after_an_outage(orphaned, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    hold, failures = claim_adoption.leases.hold, [DatabaseUnavailable("gone")]

    def fail_once(*arguments):
        if failures:
            raise failures.pop()
        return hold(*arguments)

    monkeypatch.setattr(claim_adoption.leases, "hold", fail_once)
    assert orphaned(DELETED).is_empty()
    assert "Cannot look for claims of dead schedulers: the database is not" in caplog.text
    assert "Looking for claims of dead schedulers recovered" in caplog.text
