# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.weighers.metrics, with the figures of behaviour reference 2.3."""

import numpy as np
import pytest

from scheduler.decision.weighing import weigh_hosts
from scheduler.weighers.metrics import MetricsWeigher
from tests.builders import a_request
from tests.hosts import a_host, a_table, hosts_with, in_aggregates

BOTH = ["idle=1", "kernel=-2"]
NUMA = {"name": "kernel", "numa_membw_values": {"0": 5}}


def metrics(idle=None, kernel=None):
    named = {"idle": idle, "kernel": kernel}
    return [{"name": name, "value": value} for name, value in named.items() if value is not None]


def table_of(*reported):
    return hosts_with("metrics", {f"h{i}": each for i, each in enumerate(reported)})


def totals(table, weigher):
    return weigh_hosts(table, a_request(), [weigher], np.arange(table.size)).totals.tolist()


@pytest.mark.parametrize(
    ("settings", "required", "reported", "raw", "scaled"),
    [
        (BOTH, True, [(100, 10), (300, 20), (500, 150)], [80, 260, 200], [0, 1, 2 / 3]),
        (
            BOTH,
            False,
            [(100, None), (300, 20), (340, 20)],
            [-10000, 260, 300],
            [0, 10260 / 10300, 1],
        ),
        (
            ["idle=1", "kernel=0"],
            False,
            [(100, None), (300, None), (None, None)],
            [100, 300, -10000],
            [10100 / 10300, 1, 0],
        ),
        # The same metric twice counts twice; blanks and what is no setting do not matter.
        ([" idle = 1 ", "idle=0.5", "x", "=1"], True, [(100, 0), (300, 0)], [150, 450], [0, 1]),
        (["idle=0"], True, [(100, 0), (300, 0)], [0, 0], [0, 0]),
    ],
)
def test_worked_cases(settings, required, reported, raw, scaled):
    weigher = MetricsWeigher(weight_setting=settings, required=required)
    table = table_of(*(metrics(*each) for each in reported))
    assert weigher.weigh(table, a_request()).tolist() == raw
    assert totals(table, weigher) == pytest.approx(scaled)


@pytest.mark.parametrize(
    "reported", [metrics(100), [*metrics(100), NUMA], metrics(100, "x"), [], None, "nonsense"]
)
def test_a_host_without_a_required_metric_comes_last_with_a_warning(reported):
    # Nova fails the whole request.
    table = table_of(metrics(300, 20), reported, metrics(500, 150))
    weigher = MetricsWeigher(weight_setting=BOTH)
    assert np.isnan(weigher.weigh(table, a_request())).tolist() == [False, True, False]
    assert totals(table, weigher) == [1, 0, 0]
    assert "metric kernel is missing on 1 of 3 hosts: it comes last" in table.warnings
    assert len(table.warnings) == (1 if reported and reported != "nonsense" else 2)


def test_a_required_metric_is_missed_with_a_ratio_of_0_as_well():
    table = table_of(metrics(300, 20), metrics(400))
    assert totals(table, MetricsWeigher(weight_setting=["idle=1", "kernel=0"])) == [0, 0]
    assert len(table.warnings) == 1


def test_with_a_multiplier_of_0_nothing_is_missed():
    table = table_of(metrics(), metrics(), metrics())
    for required in (True, False):
        weigher = MetricsWeigher(multiplier=0.0, weight_setting=BOTH, required=required)
        assert totals(table, weigher) == [0, 0, 0]
    assert not table.warnings


def test_where_aggregates_set_the_multiplier_to_0_what_a_host_has_is_its_weight():
    idle = in_aggregates("metrics_weight_multiplier", ["0"])
    table = a_table(
        a_host("h1", metrics=metrics(100), aggregates=idle),
        a_host("h2", metrics=metrics(200)),
        a_host("h3", metrics=metrics(300, 20)),
    )
    weigher = MetricsWeigher(weight_setting=BOTH, required=False, weight_of_unavailable=-5.0)
    assert weigher.weigh(table, a_request()).tolist() == [100, -5, 260]


def test_settings_that_say_nothing_are_named_in_a_warning():
    table = table_of(metrics(100), metrics(200))
    weigher = MetricsWeigher(weight_setting=["idle"])
    assert weigher.applies(a_request())
    assert totals(table, weigher) == [0, 0]
    assert list(table.warnings) == [
        "[metrics] weight_setting has 'idle', which is not of the form name=ratio and is ignored"
    ]


def test_without_settings_it_does_not_apply():
    assert not MetricsWeigher().applies(a_request())
    assert MetricsWeigher().weigh(table_of(None, []), a_request()).tolist() == [0, 0]


def test_two_weighers_with_different_settings_do_not_share_their_sums():
    table = table_of(metrics(100, 10), metrics(300))
    for settings, required, expected in (
        (["idle=1"], True, [100, 300]),
        (["idle=2"], True, [200, 600]),
        (["kernel=1"], False, [10, -10000]),
    ):
        weigher = MetricsWeigher(weight_setting=settings, required=required)
        assert weigher.weigh(table, a_request()).tolist() == expected


def test_defaults_and_where_the_settings_are_found():
    weigher = MetricsWeigher()
    assert (weigher.multiplier, weigher.required, weigher.weight_of_unavailable) == (
        1.0,
        True,
        -10000.0,
    )
    assert weigher.aggregate_key == "metrics_weight_multiplier"
    assert {group for _, group, _ in weigher.options} == {"metrics"}
