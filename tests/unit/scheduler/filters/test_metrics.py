# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.filters.metrics."""

import pytest

from scheduler.filters.metrics import MetricsFilter
from tests.builders import a_request
from tests.hosts import a_host, a_table, hosts_with


def metrics(*names):
    return [{"name": name, "value": 1.0} for name in names]


@pytest.mark.parametrize(
    ("settings", "reported", "lacking"),
    [
        (["cpu.frequency=1"], metrics("cpu.frequency", "numa.membw.current"), None),
        (["foo=1", "bar=2"], metrics("cpu.frequency"), "foo, bar"),
        (["foo=1", "bar=2"], metrics("bar"), "foo"),
        (["foo=1", "bar=2"], metrics("bar", "foo"), None),
        ([], [], None),
        (["cpu.frequency=1"], [], "cpu.frequency"),
        # Nova raises TypeError for each of these.
        ([], None, None),
        (["cpu.frequency=1"], None, "cpu.frequency"),
        # A metric of NUMA cells has no plain value; it is there all the same.
        (["numa=1"], [{"name": "numa", "numa_membw_values": {"0": 1}}], None),
        # Nova looks for a metric called 'b '.
        (["b = 2"], metrics("b"), None),
        # A ratio of nothing still wants the metric.
        (["a=0"], [], "a"),
        (["a=1", "a=2"], [], "a"),
        (["A=1"], metrics("a"), "A"),
    ],
)
def test_worked_cases(settings, reported, lacking):
    rule, host = MetricsFilter(weight_setting=settings), a_host(metrics=reported)
    # The request is not looked at.
    passes = rule.host_passes(host, None)
    assert passes == (lacking is None)
    assert passes or rule.reason(host, None) == f"reports no {lacking} among its metrics"


@pytest.mark.parametrize(
    "odd", [7, "a", "[]", {"name": "a"}, [None], ["a"], [["name", "a"]], [{}], [{"name": ["a"]}]]
)
def test_odd_metrics_are_none(odd):
    rule, host = MetricsFilter(weight_setting=["a=1"]), a_host(metrics=odd)
    assert not rule.host_passes(host, a_request())
    assert rule.reason(host, a_request()) == "reports no a among its metrics"
    assert MetricsFilter().host_passes(host, a_request())


def test_each_host_is_judged_by_its_own_metrics_and_each_filter_by_its_own_names():
    reported = {"h1": metrics("a"), "h2": metrics("a", "b"), "h3": None, "h4": metrics("b")}
    table = hosts_with("metrics", reported)
    for settings, passes in [
        (["a=1"], [True, True, False, False]),
        (["a=1", "b=1"], [False, True, False, False]),
        (["b=1"], [False, True, False, True]),
        ([], [True] * 4),
    ]:
        mask = MetricsFilter(weight_setting=settings).mask(table, a_request())
        assert mask.tolist() == passes


def test_settings_that_cannot_be_read_are_left_out_and_named():
    rule = MetricsFilter(weight_setting=["a=1", "b", "=2", "c=x"])
    table = a_table(a_host("h1", metrics=metrics("a")), a_host("h2"))
    assert rule.mask(table, a_request()).tolist() == [True, False]
    assert list(table.warnings) == [
        "[metrics] weight_setting has 'b', which is not of the form name=ratio and is ignored",
        "[metrics] weight_setting has '=2', which is not of the form name=ratio and is ignored",
        "[metrics] weight_setting has 'c=x', which is not of the form name=ratio and is ignored",
    ]


def test_settings_are_read_once():
    settings = ["a=1"]
    rule = MetricsFilter(weight_setting=settings)
    settings[:] = ["b=1"]
    assert rule.host_passes(a_host(metrics=metrics("a")), a_request())


def test_all_bad_settings_keep_every_host_and_are_still_named():
    rule, table = MetricsFilter(weight_setting=["a"]), a_table(a_host())
    assert rule.applies(a_request())
    assert rule.mask(table, a_request()).tolist() == [True]
    assert len(table.warnings) == 1
