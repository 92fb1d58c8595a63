# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.request_trace: what observers hear of requests, and of which attempt."""

import pytest

from scheduler import request_trace
from scheduler.decision.pipeline import Plan
from scheduler.drivers.filter_scheduler import FilterScheduler
from scheduler.host_cache.cache import HostCache
from scheduler.hosts.snapshots import SnapshotLog
from scheduler.request_trace import RequestTrace, notifying
from scheduler.select_destinations.destinations import Destinations
from scheduler.wire.arguments import SelectArguments
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import InvalidInput, NoValidHost, ServiceUnavailable
from tests.builders import a_request
from tests.databases import a_node, a_uuid, save, serve


class Hearing:
    """Keeps what it hears."""

    def __init__(self):
        self.heard = []

    def on_finished(self, ended):
        self.heard.append(ended)


class Broken:
    """Fails at whatever it hears."""

    def on_finished(self, _):
        raise ValueError("cannot count")


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (NoValidHost("none"), request_trace.REFUSED),
        (InvalidInput("odd"), request_trace.INVALID),
        (ServiceUnavailable("late"), request_trace.TOO_LATE),
        (RuntimeError("a mistake"), request_trace.FAILED),
    ],
)
def test_observers_get_the_outcome_of_a_request(error, outcome):
    observer, ended = Hearing(), RequestTrace(RequestContext(), ["u1"], 0.0)
    with pytest.raises(type(error)), notifying(ended, [observer]):
        raise error
    assert observer.heard == [ended]
    assert ended.outcome == outcome
    assert ended.total > 0


def asked(destinations, name):
    return destinations.select(SelectArguments(a_request(), [a_uuid(name)]), RequestContext())


@pytest.fixture
def cloud(database):
    save(database, a_node("h1"))
    serve(database, "h1")
    return database


def test_an_observer_that_fails_stops_no_other(cloud, caplog):
    observer = Hearing()
    destinations = Destinations(
        cloud, HostCache(cloud), FilterScheduler(Plan()), observers=[Broken(), observer]
    )
    assert asked(destinations, "u1")
    assert [each.outcome for each in observer.heard] == [request_trace.PLACED]
    assert "Broken failed on a finished request" in caplog.text


def test_request_driver_decision_and_snapshot_are_of_one_attempt(cloud):
    observer = Hearing()
    other = FilterScheduler(Plan())

    class Switching(FilterScheduler):
        """Another driver and no snapshot log are set while it decides."""

        def decide(self, hosts, request):
            destinations.change(driver=other, snapshot_log=None)
            return super().decide(hosts, request)

    driver = Switching(Plan())
    destinations = Destinations(
        cloud, HostCache(cloud), driver, observers=[observer], snapshot_log=SnapshotLog()
    )
    asked(destinations, "u1")
    asked(destinations, "u2")
    first, second = observer.heard
    assert (first.driver, first.snapshots) == (driver, [first.snapshot])
    assert (second.driver, second.snapshots, second.snapshot) == (other, [], None)
    assert first.decision.placements[0].instance_uuid == a_uuid("u1")
