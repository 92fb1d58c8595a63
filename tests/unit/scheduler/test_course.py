# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.course: what witnesses hear of requests, and of which attempt."""

import pytest

from scheduler import course
from scheduler.course import Course, witnessed
from scheduler.decision.film import Film
from scheduler.decision.pipeline import Plan
from scheduler.destinations import Destinations
from scheduler.drivers.filter_scheduler import FilterScheduler
from scheduler.host_view import HostView
from scheduler.rpc.codec import SelectArguments
from scheduler.rpc.context import RequestContext
from scheduler.rpc.failures import InvalidInput, NoValidHost, ServiceUnavailable
from tests.builders import a_request
from tests.databases import a_node, a_uuid, save, serve


class Hearing:
    """Keeps what it hears."""

    def __init__(self):
        self.heard = []

    def ended(self, ended):
        self.heard.append(ended)


class Broken:
    """Fails at whatever it hears."""

    def ended(self, _):
        raise ValueError("cannot count")


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (NoValidHost("none"), course.REFUSED),
        (InvalidInput("odd"), course.INVALID),
        (ServiceUnavailable("late"), course.TOO_LATE),
        (RuntimeError("a mistake"), course.FAILED),
    ],
)
def test_witnesses_hear_how_a_request_ended(error, outcome):
    witness, ended = Hearing(), Course(RequestContext(), ["u1"], 0.0)
    with pytest.raises(type(error)), witnessed(ended, [witness]):
        raise error
    assert witness.heard == [ended]
    assert ended.outcome == outcome
    assert ended.total > 0


def asked(destinations, name):
    return destinations.select(SelectArguments(a_request(), [a_uuid(name)]), RequestContext())


@pytest.fixture
def cloud(database):
    save(database, a_node("h1"))
    serve(database, "h1")
    return database


def test_a_witness_that_fails_is_in_nobody_s_way(cloud, caplog):
    witness = Hearing()
    destinations = Destinations(
        cloud, HostView(cloud), FilterScheduler(Plan()), witnesses=[Broken(), witness]
    )
    assert asked(destinations, "u1")
    assert [each.outcome for each in witness.heard] == [course.PLACED]
    assert "Broken cannot take in how a request went" in caplog.text


def test_request_driver_decision_and_frame_are_of_one_attempt(cloud):
    witness = Hearing()
    other = FilterScheduler(Plan())

    class Switching(FilterScheduler):
        """While it decides somebody else puts in another driver, and ends the film."""

        def decide(self, hosts, request):
            destinations.driver, destinations.film = other, None
            return super().decide(hosts, request)

    driver = Switching(Plan())
    destinations = Destinations(cloud, HostView(cloud), driver, witnesses=[witness], film=Film())
    asked(destinations, "u1")
    asked(destinations, "u2")
    first, second = witness.heard
    assert (first.driver, first.frames) == (driver, [first.frame])
    assert (second.driver, second.frames, second.frame) == (other, [], None)
    assert first.decision.placements[0].instance_uuid == a_uuid("u1")
