# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the cost functions (behaviour reference 2.5)."""

import numpy as np
import pytest

from scheduler.decision.weighing import weigh_hosts
from scheduler.weighers.fill_first_cost import FillFirstCostWeigher
from scheduler.weighers.noop_cost import NoopCostWeigher
from tests.builders import a_request
from tests.hosts import hosts_with


def totals(*weighers):
    table = hosts_with("free_ram_mb", {"h1": 2048, "h2": 8192, "h3": 4096})
    found = weigh_hosts(table, a_request(), weighers, np.arange(3))
    return found.totals.tolist(), {name: each.tolist() for name, each in found.shares().items()}


@pytest.mark.parametrize(
    ("weight", "costs", "best"), [(-1.0, [-2048, -8192, -4096], 1), (1.0, [2048, 8192, 4096], 0)]
)
def test_the_lowest_cost_wins_and_nothing_is_scaled(weight, costs, best):
    found, shares = totals(FillFirstCostWeigher(multiplier=weight))
    assert found == [-cost for cost in costs]
    assert int(np.argmax(found)) == best
    assert list(shares) == ["compute_fill_first_cost_fn"]


def test_noop_shifts_all_hosts_alike():
    found, shares = totals(FillFirstCostWeigher(), NoopCostWeigher())
    assert found == [2047, 8191, 4095]
    assert shares["noop_cost_fn"] == [-1, -1, -1]
    assert totals(NoopCostWeigher(multiplier=3.0))[0] == [-3, -3, -3]


@pytest.mark.parametrize(
    ("weigher", "name", "weight"),
    [
        (FillFirstCostWeigher(), "compute_fill_first_cost_fn", -1.0),
        (NoopCostWeigher(), "noop_cost_fn", 1.0),
    ],
)
def test_names_and_defaults(weigher, name, weight):
    assert (weigher.name, weigher.multiplier) == (name, weight)
    assert weigher.options == (("multiplier", "filter_scheduler", f"{name}_weight"),)
    assert not weigher.in_all
    assert weigher.aggregate_key is None
