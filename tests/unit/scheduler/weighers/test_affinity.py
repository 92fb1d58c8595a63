# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the weighers for server groups (behaviour reference 2.3)."""

import numpy as np
import pytest

from scheduler.decision.weighing import weigh_hosts
from scheduler.weighers.soft_affinity import ServerGroupSoftAffinityWeigher
from scheduler.weighers.soft_anti_affinity import ServerGroupSoftAntiAffinityWeigher
from tests.builders import a_group, a_request
from tests.hosts import a_host, a_table

TOGETHER, APART = ServerGroupSoftAffinityWeigher(), ServerGroupSoftAntiAffinityWeigher()


def the_hosts():
    return a_table(
        a_host("h1", instances=["a"]),
        a_host("h2", instances=["b", "c", "x"]),
        a_host("h3", instances=["y"]),
    )


def a_member_s_request(policy, **group):
    return a_request(instance_group=a_group(policy, **{"members": ["a", "b", "c", "d"]} | group))


@pytest.mark.parametrize(
    ("weigher", "policy", "raw", "expected"),
    [
        (TOGETHER, "soft-affinity", [1, 2, 0], [0.5, 1, 0]),
        (APART, "soft-anti-affinity", [-1, -2, 0], [0.5, 0, 1]),
        (TOGETHER, "soft-anti-affinity", [0, 0, 0], [0, 0, 0]),
        (APART, "soft-affinity", [0, 0, 0], [0, 0, 0]),
        (TOGETHER, "affinity", [0, 0, 0], [0, 0, 0]),
        (APART, "anti-affinity", [0, 0, 0], [0, 0, 0]),
        (TOGETHER, None, [0, 0, 0], [0, 0, 0]),
    ],
)
def test_worked_cases(weigher, policy, raw, expected):
    table, spec = the_hosts(), a_member_s_request(policy)
    assert weigher.weigh(table, spec).tolist() == raw
    assert weigh_hosts(table, spec, [weigher], np.arange(3)).totals.tolist() == expected
    assert weigher.applies(spec) == any(raw)


@pytest.mark.parametrize("weigher", [TOGETHER, APART])
def test_without_a_group_they_do_not_apply(weigher):
    assert not weigher.applies(a_request())
    assert weigher.weigh(the_hosts(), a_request()).tolist() == [0, 0, 0]


def test_hosts_that_this_request_has_taken_count():
    # Newton's weighers see the same counts for all instances of one request.
    spec = a_member_s_request("soft-affinity", members=[], hosts=["h3", "h3"])
    assert TOGETHER.weigh(the_hosts(), spec).tolist() == [0, 0, 2]


def test_another_group_finds_the_same_weigher_unchanged():
    for members, expected in ((["a"], [1, 0, 0]), (["b", "c"], [0, 1, 0]), (["y"], [0, 0, 1])):
        spec = a_member_s_request("soft-affinity", members=members)
        assert weigh_hosts(the_hosts(), spec, [TOGETHER], np.arange(3)).totals.tolist() == expected


@pytest.mark.parametrize(
    ("weigher", "key"),
    [
        (TOGETHER, "soft_affinity_weight_multiplier"),
        (APART, "soft_anti_affinity_weight_multiplier"),
    ],
)
def test_defaults(weigher, key):
    assert (weigher.multiplier, weigher.aggregate_key) == (1.0, key)
    assert weigher.options == (("multiplier", "filter_scheduler", key),)
