# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.filters.availability_zone."""

import pytest

from scheduler.filters.availability_zone import AvailabilityZoneFilter
from tests.builders import a_request
from tests.hosts import a_host, in_aggregates


@pytest.mark.parametrize(
    ("asked", "zones", "reason"),
    [
        (None, ["z1"], None),
        ("", ["z1"], None),
        ("z1", ["z1"], None),
        ("z2", ["z1, z2"], None),
        ("z2", ["z1", "z2"], None),
        ("nova", [], None),
        ("z1", [], "is in zone nova, not in z1"),
        ("nova", ["z1"], "is in zone z1, not in nova"),
        ("Z1", ["z1"], "is in zone z1, not in Z1"),
        ("Z1", ["z2", "z1"], "is in zone z1, z2, not in Z1"),
        ("z1", ["z1z"], "is in zone z1z, not in z1"),
        # An empty value is a zone without a name, and so not the default one.
        ("nova", [""], "is in zone '', not in nova"),
    ],
)
def test_worked_cases(asked, zones, reason):
    rule = AvailabilityZoneFilter()
    host = a_host(aggregates=in_aggregates("availability_zone", zones))
    spec = a_request(availability_zone=asked)
    passes = rule.host_passes(host, spec)
    assert passes == (reason is None)
    assert rule.applies(spec) == bool(asked)
    assert passes or rule.reason(host, spec) == reason


def test_aggregates_without_a_zone_leave_a_host_in_the_default_one():
    host = a_host(aggregates=in_aggregates("ssd", ["true"]))
    rule = AvailabilityZoneFilter(default_zone="home")
    assert rule.host_passes(host, a_request(availability_zone="home"))
    assert not rule.host_passes(host, a_request(availability_zone="nova"))
    assert rule.host_passes(a_host(aggregates=None), a_request(availability_zone="home"))
