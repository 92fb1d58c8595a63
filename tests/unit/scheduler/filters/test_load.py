# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the filters for load and their variants for aggregates."""

import numpy as np
import pytest

from scheduler.decision.pipeline import Plan, Request, decide
from scheduler.filters.aggregate_limits import AggregateIoOpsFilter, AggregateNumInstancesFilter
from scheduler.filters.io_ops import IoOpsFilter
from scheduler.filters.num_instances import NumInstancesFilter
from scheduler.hosts.host_state import HostState
from tests.builders import a_request
from tests.hosts import a_host, a_table, in_aggregates

IO = "{} instances are busy with input and output, {} allowed"
INSTANCES = "has {} instances, {} allowed"


def judged(rule, host):
    """Return None for a host that passes, else the reason why it does not."""
    return None if rule.host_passes(host, a_request()) else rule.reason(host, a_request())


@pytest.mark.parametrize(
    ("busy", "settings", "allowed"),
    [
        (7, {}, None),
        (8, {}, 8),
        (9, {}, 8),
        (8, {"most": 9}, None),
        (0, {"most": 0}, 0),
        (None, {"most": 1}, None),
        (-1, {"most": 0}, None),
    ],
)
def test_io_ops_worked_cases(busy, settings, allowed):
    expected = None if allowed is None else IO.format(busy, allowed)
    assert judged(IoOpsFilter(**settings), a_host(num_io_ops=busy)) == expected


@pytest.mark.parametrize(
    ("values", "busy", "allowed"),
    [
        (["4"], 3, None),
        (["4"], 4, 4),
        (["4", "20"], 10, 4),
        (["4", "20"], 3, None),
        (["10", "9"], 9, 9),
        (["x"], 7, None),
        (["x"], 8, 8),
        # Only whole numbers.
        (["4.5"], 7, None),
        (["4.5"], 8, 8),
        (["4,20"], 7, None),
        (["4,20"], 8, 8),
        ([""], 8, 8),
        # Nova falls back to the option for both.
        (["x", "20"], 10, None),
        (["x", "20"], 20, 20),
        ([" 12 "], 11, None),
        ([" 12 "], 12, 12),
        (["-1"], 0, -1),
        (["9" * 400], 8, 8),
        ([], 7, None),
        ([], 8, 8),
    ],
)
def test_io_ops_of_aggregates_worked_cases(values, busy, allowed):
    host = a_host(num_io_ops=busy, aggregates=in_aggregates("max_io_ops_per_host", values))
    expected = None if allowed is None else IO.format(busy, allowed)
    assert judged(AggregateIoOpsFilter(), host) == expected
    # Whoever does not ask aggregates does not hear them.
    assert judged(IoOpsFilter(most=99), host) is None


@pytest.mark.parametrize(
    ("present", "settings", "allowed"),
    [
        (49, {}, None),
        (50, {}, 50),
        (50, {"most": 51}, None),
        (51, {"most": 51}, 51),
        (1000000, {"most": 1000000}, 1000000),
        (None, {"most": 1}, None),
    ],
)
def test_num_instances_worked_cases(present, settings, allowed):
    expected = None if allowed is None else INSTANCES.format(present, allowed)
    assert judged(NumInstancesFilter(**settings), a_host(num_instances=present)) == expected


@pytest.mark.parametrize(
    ("values", "present", "most", "allowed"),
    [
        (["6"], 5, 4, None),
        (["6"], 6, 4, 6),
        (["XXX"], 0, 6, None),
        (["XXX"], 6, 6, 6),
        (["XXX", "7"], 6, 6, None),
        (["6", "7"], 6, 9, 6),
        (["2.5"], 2, 2, 2),
        ([], 5, 6, None),
        ([], 6, 6, 6),
    ],
)
def test_num_instances_of_aggregates_worked_cases(values, present, most, allowed):
    aggregates = in_aggregates("max_instances_per_host", values)
    host = a_host(num_instances=present, aggregates=aggregates)
    expected = None if allowed is None else INSTANCES.format(present, allowed)
    assert judged(AggregateNumInstancesFilter(most=most), host) == expected


@pytest.mark.parametrize(
    ("rule", "key"),
    [
        (AggregateIoOpsFilter(), "max_io_ops_per_host"),
        (AggregateNumInstancesFilter(), "max_instances_per_host"),
    ],
)
def test_each_host_has_the_cap_of_its_own_aggregates(rule, key):
    figures = {"num_io_ops": 7, "num_instances": 7}
    table = a_table(
        a_host("h1", aggregates=in_aggregates(key, ["7"]), **figures),
        a_host("h2", aggregates=in_aggregates("other", ["7"]), **figures),
        a_host("h3", aggregates=None, **figures),
        a_host("h4", aggregates=in_aggregates(key, ["8", "x"]), **figures),
    )
    assert rule.mask(table, a_request()).tolist() == [False, True, True, True]
    assert rule.reason(HostState.of(table, 0), a_request()).endswith(", 7 allowed")
    assert list(table.warnings) == [
        f"aggregate metadata {key} = 'x' is not a number and is ignored"
    ]


@pytest.mark.parametrize(
    ("rule", "figure", "least"),
    [
        (NumInstancesFilter(), "num_instances", 48),
        (AggregateNumInstancesFilter(), "num_instances", 48),
        (IoOpsFilter(), "num_io_ops", 6),
        (AggregateIoOpsFilter(), "num_io_ops", 6),
    ],
)
def test_of_three_instances_two_fit_below_the_cap(rule, figure, least):
    request = Request(a_request(vcpus=1), ["u1", "u2", "u3"])
    plan = Plan(filters=[rule])
    decision = decide(a_table(a_host(**{figure: least})), request, plan)
    assert decision.shortage.index == 2
    decision = decide(a_table(a_host(**{figure: least - 1})), request, plan)
    assert len(decision.placements) == 3


def test_nothing_is_written_into_limits():
    table = a_table(a_host())
    for rule in (IoOpsFilter(), NumInstancesFilter()):
        mask = rule.mask(table, a_request())
        assert mask.dtype == np.bool_
    assert dict(table.limits.of(0)) == {}
