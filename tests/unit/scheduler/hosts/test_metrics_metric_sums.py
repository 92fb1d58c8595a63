# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.hosts.metrics."""

import math

import pytest

from scheduler.hosts.metrics import (
    metric_values,
    warn_of_missing,
    weighted_sum,
    weighted_sum_of_known,
)
from tests.hosts import hosts_with


def metrics(**values):
    return [{"name": name, "value": value} for name, value in values.items()]


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        (None, {}),
        ([], {}),
        ("idle", {}),
        ({"name": "idle", "value": 1}, {}),
        ([None, "idle", ["idle", 1]], {}),
        (metrics(idle=98, load="0.5"), {"idle": 98.0, "load": 0.5}),
        ([{"name": "membw", "numa_membw_values": {"0": 5}}], {}),
        (metrics(idle=None, user="x", kernel=math.inf, wait=10**400), {}),
        ([{"value": 1}, {"name": ["idle"], "value": 1}], {}),
        ([*metrics(idle=1), *metrics(idle=2)], {"idle": 2.0}),
        (tuple(metrics(idle=1)), {"idle": 1.0}),
    ],
)
def test_what_a_host_measured(reported, expected):
    assert metric_values(reported) == expected


@pytest.mark.parametrize(
    ("ratios", "total", "known"),
    [
        ([], 0.0, 0.0),
        ([("idle", 1.0), ("kernel", -2.0)], 80.0, 80.0),
        ([("idle", 1.0), ("idle", 0.5)], 150.0, 150.0),
        ([("idle", 1.0), ("gone", 1.0)], math.nan, 100.0),
        ([("gone", 0.0)], math.nan, 0.0),
        # More than a float can hold is no figure either.
        ([("large", 1e308)], math.nan, math.nan),
    ],
)
def test_sums(ratios, total, known):
    host = metrics(idle=100, kernel=10, large=1e300)
    assert weighted_sum(ratios, host) == pytest.approx(total, nan_ok=True)
    assert weighted_sum_of_known(ratios, host) == pytest.approx(known, nan_ok=True)


def test_each_metric_is_missed_once_and_only_on_candidates():
    table = hosts_with("metrics", {"h1": metrics(idle=1), "h2": None, "h3": [], "h4": []})
    table.candidates = table.candidates & [True, True, True, False]
    warn_of_missing(table, [("idle", 1.0), ("kernel", 1.0), ("idle", 2.0)])
    assert list(table.warnings) == [
        "metric idle is missing on 2 of 3 hosts: they come last",
        "metric kernel is missing on 3 of 3 hosts: they come last",
    ]
    table.candidates = table.candidates & [True, False, False, False]
    table.warnings.clear()
    warn_of_missing(table, [("idle", 1.0)])
    assert not table.warnings
