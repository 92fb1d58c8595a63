# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The tracking casts reach the host cache; malformed ones end in one line of the log."""

import logging

import pytest

from scheduler.api.tracking_endpoint import TrackingEndpoint
from tests.builders import INSTANCE
from tests.unit.scheduler.wire import wire_samples

AGGREGATE = "00000000-0000-0000-2222-000000000001"


class Cache:
    """Stands in for the host cache: writes down its calls, and released claims."""

    def __init__(self):
        self.calls = []
        self.released = []

    def release(self, host, uuid):
        self.released.append((host, uuid))

    def update_aggregates(self, aggregates):
        self.calls.append(("update", [each.uuid for each in aggregates]))

    def delete_aggregate(self, aggregate):
        self.calls.append(("delete", aggregate.uuid))

    def mark_host_stale(self, host):
        self.calls.append(("update", host))

    def forget_instance(self, host, uuid):
        self.calls.append(("delete", host, uuid))

    def compare_instances(self, host, uuids):
        self.calls.append(("sync", host, uuids))


@pytest.fixture
def cache():
    return Cache()


def receive(cache, name, /, tracks=True, **changes):
    """Receive a captured cast with some arguments changed, as oslo.messaging calls an endpoint."""
    endpoint = TrackingEndpoint(cache, cache.release, lambda: tracks)
    arguments = wire_samples.arguments(name) | changes
    getattr(endpoint, wire_samples.sample(name)["message"]["method"])(
        wire_samples.context(name), **arguments
    )
    return cache.calls


HEARD = {
    "update_aggregates": ("update", [AGGREGATE]),
    "delete_aggregate": ("delete", AGGREGATE),
    "update_instance_info": ("update", "compute1"),
    "delete_instance_info": ("delete", "compute1", INSTANCE),
    "sync_instance_info": ("sync", "compute1", [f"{INSTANCE[:-1]}{n}" for n in (1, 2, 3)]),
}
CASTS = wire_samples.names("cast_*")


@pytest.mark.parametrize("name", CASTS)
def test_every_captured_cast_is_understood(cache, name):
    (heard,) = receive(cache, name)
    expected = HEARD[wire_samples.sample(name)["message"]["method"]]
    if name == "cast_newton_sync_instance_info":
        expected = (*expected[:2], expected[2][:2])
    assert heard == expected


@pytest.mark.parametrize("name", CASTS)
def test_casts_about_instances_are_ignored_where_these_are_not_tracked(cache, name):
    heard = receive(cache, name, tracks=False)
    assert len(heard) == ("aggregate" in name)


@pytest.mark.parametrize(
    ("name", "changes", "reason"),
    [
        ("cast_update_aggregates", {"aggregates": 7}, "aggregates: 7 is not a list"),
        ("cast_delete_aggregate", {"aggregate": {}}, "aggregate.uuid: is missing"),
        ("cast_update_instance_info", {"host_name": None}, "host_name: null is not text"),
        ("cast_delete_instance_info", {"instance_uuid": ""}, "instance_uuid: '' is not text of"),
        ("cast_sync_instance_info", {"instance_uuids": "x"}, "instance_uuids: 'x' is not a list"),
    ],
)
def test_a_malformed_cast_is_one_line_that_names_the_field(cache, caplog, name, changes, reason):
    with caplog.at_level(logging.INFO):
        assert receive(cache, name, **changes) == []
    (line,) = caplog.messages
    method = wire_samples.sample(name)["message"]["method"]
    request_id = wire_samples.context(name)["request_id"]
    assert line.startswith(f"Refused a malformed {method} of {request_id}: {reason}")
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("method", HEARD)
def test_a_cast_without_arguments_is_malformed(cache, caplog, method):
    endpoint = TrackingEndpoint(cache, cache.release, lambda: True)
    with caplog.at_level(logging.INFO):
        getattr(endpoint, method)({}, of_a_later_release=1)
    assert cache.calls == []
    assert "null is not" in caplog.text


def test_what_a_later_release_says_besides_is_ignored(cache):
    later = {"of_a_later_release": 1, "context": 2, "self": 3}
    assert receive(cache, "cast_sync_instance_info", **later)


@pytest.mark.parametrize("instances", [None, 7, [{"uuid": 1.5, "vcpus": []}], []])
def test_what_a_host_says_about_its_instances_is_not_looked_at(cache, instances):
    heard = receive(cache, "cast_update_instance_info", instance_info=instances)
    assert heard == [HEARD["update_instance_info"]]


def test_only_the_end_of_an_instance_releases_its_claim_on_that_host(cache):
    for name in CASTS:
        receive(cache, name)
    assert {*cache.released} == {("compute1", INSTANCE)}
    cache.released.clear()
    receive(cache, "cast_delete_instance_info", tracks=False)
    receive(cache, "cast_delete_instance_info", instance_uuid="")
    assert cache.released == []
