# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of select_destinations: no request is refused or served by facts that changed."""

import time

import pytest

from scheduler.claims.claim_request import ClaimSettings
from scheduler.claims.claimer import Claimer
from scheduler.decision.pipeline import Plan, Request, decide
from scheduler.drivers.filter_scheduler import FilterScheduler
from scheduler.filters.compute import ComputeFilter
from scheduler.host_cache.cache import HostCache
from scheduler.select_destinations.destinations import Destinations
from scheduler.select_destinations.loop import MAX_RECHECKS
from scheduler.wire.errors import NoValidHost
from tests.builders import a_request
from tests.databases import execute
from tests.unit.scheduler.select_destinations.test_loop_requests import (
    FILTERS,
    NEVER,
    PLAN,
    U,
    a_scheduler,
    ask,
    cloud,
    used,
)

__all__ = ["cloud"]


class Disputed(HostCache):
    """A host cache in which others reserve hosts after each of some refreshes, and never claim."""

    def __init__(self, database, times):
        super().__init__(database, max_age=NEVER)
        self.refreshes = 0
        self._times = times
        self._theirs = None

    def refresh(self):
        # Nodes of a lost reservation are stale, and then read.
        if self._theirs is not None:
            self.mark_stale(self._theirs)
            self.end_claim(self._theirs)
        super().refresh()
        self.refreshes += 1
        self._theirs = None
        if self.refreshes <= self._times:
            with self.current() as hosts:
                request = Request(a_request(), U[10:19])
                decision = decide(hosts.working_copy(), request, PLAN)
            self._theirs = self.begin_claim(decision, request.spec)


def disputed(database, times):
    cache = Disputed(database, times)
    return Destinations(
        database, cache, FilterScheduler(PLAN), claimer=Claimer(database, ClaimSettings(attempts=3))
    )


@pytest.mark.parametrize("times", [1, 2, MAX_RECHECKS])
def test_nobody_is_refused_for_what_others_have_reserved_in_vain(cloud, times):
    scheduler = disputed(cloud, times)
    assert len(ask(scheduler, *U[:9])) == 9
    assert used(cloud) == [8192] * 3
    assert scheduler.host_cache.refreshes == times + 1


def test_who_doubts_again_and_again_is_refused_in_the_end(cloud):
    scheduler = disputed(cloud, 99)
    with pytest.raises(NoValidHost):
        ask(scheduler, U[0])
    # The first look, the fresh one, and one for each doubt.
    assert scheduler.host_cache.refreshes == 2 + MAX_RECHECKS


def test_a_refusal_that_nobody_disputes_takes_one_fresh_look(cloud):
    scheduler = disputed(cloud, 0)
    with pytest.raises(NoValidHost):
        ask(scheduler, U[0], memory_mb=99999)
    assert scheduler.host_cache.refreshes == 2


def later(monkeypatch, seconds):
    """Let the monotonic clock be so much later."""
    real = time.monotonic
    monkeypatch.setattr("scheduler.host_cache.cache.time.monotonic", lambda: real() + seconds)


def test_a_fresh_look_does_not_find_a_host_alive_that_is_not(cloud, monkeypatch):
    execute(cloud, "UPDATE services SET last_seen_up = datetime('now', '-55 seconds')")
    plan = Plan((ComputeFilter(service_down_time=60), *FILTERS))
    scheduler = a_scheduler(cloud, plan=plan)
    with scheduler.host_cache.current(fresh=True):
        pass
    # Too early for the heartbeats to be read again.
    later(monkeypatch, 8)
    with pytest.raises(NoValidHost):
        ask(scheduler, U[0])


def test_the_age_of_heartbeats_stands_still_only_where_the_cache_may_be_old(cloud, monkeypatch):
    cache = HostCache(cloud, max_age=NEVER)
    with cache.current() as hosts:
        before = max(hosts.heartbeat_age)
    later(monkeypatch, 8)
    for how, age in (({"max_age": NEVER}, 0), ({"max_age": NEVER, "fresh": True}, 8), ({}, 8)):
        with cache.current(**how) as hosts:
            assert max(hosts.heartbeat_age) - before == pytest.approx(age, abs=2)
