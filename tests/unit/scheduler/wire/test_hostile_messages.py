# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Damaged messages through dispatcher, endpoints, filters and claims: all but the broker."""

import json
from types import SimpleNamespace

import oslo_messaging
import pytest
from hypothesis import given
from oslo_config import cfg

from scheduler.api.scheduler_endpoint import SchedulerEndpoint
from scheduler.api.tracking_endpoint import TrackingEndpoint
from scheduler.claims.release_queue import ReleaseQueue
from scheduler.messaging.dispatcher import CheckedDispatcher
from scheduler.service import build_destinations
from tests.databases import a_conf, migrated
from tests.fixtures.captured_fleet import ALL_FILTERS, CapturedFleet
from tests.mutations import MUTATING, hostile_messages
from tests.unit.scheduler.wire import wire_samples

SELECTS, CASTS = wire_samples.names("call_*select_destinations*"), wire_samples.names("cast_*")
# What callers may hear of; anything else is a mistake of ours.
REFUSALS = {"NoValidHost", "InvalidInput", "NoSuchMethod", "UnsupportedVersion", "TypeError"}


class Silent:
    """Notifies nobody."""

    def send(self, *_reply):
        pass


class Service:
    """What a scheduler has between its connection to the broker and its database."""

    def __init__(self, database):
        conf = a_conf()
        conf.set_override("enabled_filters", ALL_FILTERS, group="filter_scheduler")
        conf.set_override("view_max_age", 0.0, group="scheduler")
        conf.set_override("service_down_time", 86400)
        destinations = build_destinations(conf, database)
        self._releases = ReleaseQueue(lambda: destinations.claimer)
        endpoints = [
            SchedulerEndpoint(destinations, Silent()),
            TrackingEndpoint(destinations.host_cache, self._releases.add, lambda: True),
        ]
        self._dispatcher = CheckedDispatcher(endpoints)

    def receive(self, message):
        """Return what is answered to a message, None where it is refused in the proper way."""
        context = {name[9:]: each for name, each in message.items() if name[:9] == "_context_"}
        incoming = SimpleNamespace(message=message, ctxt=context, client_timeout=None)
        try:
            answer = self._dispatcher.dispatch(incoming)
            self._releases.stop()
            return answer
        except oslo_messaging.ExpectedException as expected:
            kind, error, _ = expected.exc_info
            assert kind.__name__ in REFUSALS, error
            return None


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    database = migrated(tmp_path_factory.mktemp("hostile"))
    found = CapturedFleet(database)
    found.create()
    yield found
    database.close()


@pytest.fixture(scope="module")
def service(fleet):
    cfg.CONF([], project="berthmaster")
    yield Service(fleet.database)
    cfg.CONF.reset()


@pytest.mark.parametrize("name", SELECTS + CASTS)
def test_what_was_captured_is_taken_as_it_is(fleet, service, name):
    message = wire_samples.sample(name)["message"]
    result = service.receive(message)
    fleet.check(message["args"], result if name in SELECTS else None)
    fleet.release()


@given(hostile_messages([wire_samples.sample(name)["message"] for name in SELECTS]))
@MUTATING
def test_damaged_requests(fleet, service, message):
    if not isinstance(message, dict):
        return
    result = service.receive(message)
    json.dumps(result)
    is_request = message.get("method") == "select_destinations"
    fleet.check(message.get("args"), result if is_request else None)
    fleet.release()


@given(hostile_messages([wire_samples.sample(name)["message"] for name in CASTS]))
@MUTATING
def test_damaged_casts(fleet, service, message):
    if isinstance(message, dict):
        assert service.receive(message) is None
        fleet.check(None, None)
