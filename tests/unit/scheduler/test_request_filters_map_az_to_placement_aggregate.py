# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.request_filters."""

import numpy as np
import pytest

from scheduler.decision.pipeline import Plan, Request, decide
from scheduler.hosts.host_state import HostState
from scheduler.request_filters import MapAzToPlacementAggregate
from tests.builders import a_request
from tests.hosts import hosts_with, in_aggregates

ZONES = {"h1": ["z1"], "h2": ["z2"], "h3": ["z1, z2"], "h4": []}
REBUILD = {"_nova_check_type": ["rebuild"]}


def a_cloud():
    key = "availability_zone"
    return hosts_with(
        "aggregates", {host: in_aggregates(key, zones) for host, zones in ZONES.items()}
    )


def placed(**changes):
    plan = Plan(request_filters=[MapAzToPlacementAggregate()])
    decision = decide(a_cloud(), Request(a_request(**changes), ["u"]), plan)
    return decision.placements[0].chosen.host if decision.placements else None


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        ("z1", ["h1", "h3"]),
        ("z2", ["h2", "h3"]),
        # Nova leaves these two unrestricted.
        ("nova", ["h4"]),
        ("z9", []),
        ("Z1", []),
    ],
)
def test_the_requested_zone_is_enforced(zone, expected):
    hosts, spec = a_cloud(), a_request(availability_zone=zone)
    rule = MapAzToPlacementAggregate()
    assert rule.applies(spec)
    kept = np.flatnonzero(rule.mask(hosts, spec))
    assert [hosts.get(row, "host") for row in kept] == expected


@pytest.mark.parametrize("zone", [None, ""])
def test_no_zone_is_any_zone(zone):
    assert not MapAzToPlacementAggregate().applies(a_request(availability_zone=zone))


def test_it_can_be_switched_off():
    rule, spec = MapAzToPlacementAggregate(enabled=False), a_request(availability_zone="z1")
    assert not rule.applies(spec)
    assert rule.host_passes(HostState.of(a_cloud(), 1), spec)


@pytest.mark.parametrize(
    ("zone", "host", "expected"),
    [
        ("z1", "h1", "h1"),
        ("z1", "h2", None),
        ("z1", "h4", None),
        # nova:HOST is how a host is forced, whatever zone it is in.
        ("nova", "h1", "h1"),
        ("nova", "h4", "h4"),
        (None, "h2", "h2"),
    ],
)
def test_a_forced_host_must_be_in_the_zone_unless_it_is_the_default_one(zone, host, expected):
    assert placed(availability_zone=zone, force_hosts=[host]) == expected
    assert placed(availability_zone=zone, force_nodes=[host]) == expected


def test_a_rebuild_is_not_asked():
    assert placed(availability_zone="z1", force_hosts=["h2"], scheduler_hints=REBUILD) == "h2"


def test_the_default_zone_is_the_configured_one():
    rule = MapAzToPlacementAggregate(default_zone="home")
    hosts, spec = a_cloud(), a_request(availability_zone="home")
    assert rule.mask(hosts, spec).tolist() == [False, False, False, True]


def test_the_reason_names_the_zones():
    plan = Plan(request_filters=[MapAzToPlacementAggregate()])
    decision = decide(a_cloud(), Request(a_request(availability_zone="z9"), ["u"]), plan)
    assert list(map(str, decision.shortage.steps)) == ["MapAzToPlacementAggregate 4->0"]
