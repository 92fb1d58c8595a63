# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What the map of the fleet says about a group of hosts."""

import pytest

from inventory.queries.fleet import DOWN, MAINTENANCE, UNSERVED, UP, FleetNode
from scheduler.operators.status_pages.fleet import _summary


def a_fleet_node(host: str, state: str, share: float) -> FleetNode:
    return FleetNode(host, host, state, ("nova",), (), (share, share, share))


@pytest.mark.parametrize(
    ("state", "mean", "fullest"),
    [(UP, 0.6, "other"), (MAINTENANCE, 0.6, "other"), (DOWN, 0.2, "one"), (UNSERVED, 0.2, "one")],
)
def test_hosts_that_are_down_do_not_count_in_the_mean(state, mean, fullest):
    nodes = [a_fleet_node("one", UP, 0.2), a_fleet_node("other", state, 1.0)]
    found = _summary(nodes)
    assert found["hosts"] == 2
    assert found["mean"] == pytest.approx({"vcpus": mean, "memory": mean, "disk": mean})
    assert found["fullest"]["host"] == fullest


def test_where_all_hosts_are_down_they_are_described_all_the_same():
    assert _summary([a_fleet_node("one", DOWN, 0.5)])["mean"]["vcpus"] == 0.5
