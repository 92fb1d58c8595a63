# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the filters for server groups."""

import pytest

from scheduler.filters.server_group_affinity import ServerGroupAffinityFilter
from scheduler.filters.server_group_anti_affinity import ServerGroupAntiAffinityFilter
from tests.builders import a_group, a_request
from tests.hosts import a_host, a_table

ANTI, TOGETHER = ServerGroupAntiAffinityFilter(), ServerGroupAffinityFilter()


def a_member_s_request(**group):
    return a_request(instance_uuid="me", instance_group=a_group(**group))


@pytest.mark.parametrize(
    ("group", "there", "reason"),
    [
        ({"members": ["a"]}, [], None),
        ({"members": ["a"]}, ["a"], "has 1 of the anti-affinity group, 1 allowed"),
        ({"members": ["a"]}, ["x"], None),
        # The instance itself is there: it may stay, for instance to be resized.
        ({"members": ["a", "me"]}, ["a", "me"], None),
        ({"members": ["a", "b"], "rules": {"max_server_per_host": 2}}, ["a"], None),
        (
            {"members": ["a", "b"], "rules": {"max_server_per_host": 2}},
            ["a", "b"],
            "has 2 of the anti-affinity group, 2 allowed",
        ),
        ({"policy": "soft-anti-affinity", "members": ["a"]}, ["a"], None),
        ({"policy": "affinity", "members": ["a"]}, ["a"], None),
        ({"policy": None, "members": ["a"]}, ["a"], None),
        # A rule that says nothing is none.
        (
            {"members": ["a"], "rules": {"max_server_per_host": 0}},
            ["a"],
            "has 1 of the anti-affinity group, 1 allowed",
        ),
        ({"members": ["a"], "rules": {"max_server_per_host": None}}, [], None),
        # A member that is listed twice is still one.
        ({"members": ["a", "a"], "rules": {"max_server_per_host": 2}}, ["a"], None),
        # Newton's callers send the hosts of the group; no agent need have reported the members.
        ({"hosts": ["h1"]}, [], "has 1 of the anti-affinity group, 1 allowed"),
        ({"hosts": ["h1"], "rules": {"max_server_per_host": 2}}, [], None),
        # Named once for each instance of this request that is there already.
        (
            {"hosts": ["h1", "h1"], "rules": {"max_server_per_host": 2}},
            [],
            "has 2 of the anti-affinity group, 2 allowed",
        ),
        ({"hosts": ["H1"]}, [], None),
        ({"hosts": ["h1"], "members": ["me"]}, ["me"], None),
        (
            {"hosts": ["h1"], "members": ["a", "b"]},
            ["a", "b"],
            "has 2 of the anti-affinity group, 1 allowed",
        ),
    ],
)
def test_anti_affinity_worked_cases(group, there, reason):
    host, spec = a_host("h1", instances=there), a_member_s_request(**group)
    passes = ANTI.host_passes(host, spec)
    assert passes == (reason is None)
    assert passes or ANTI.reason(host, spec) == reason


def test_anti_affinity_of_an_instance_without_a_uuid():
    spec = a_request(instance_uuid=None, instance_group=a_group(members=["a"]))
    assert not ANTI.host_passes(a_host(instances=["a"]), spec)
    assert ANTI.host_passes(a_host(instances=["b"]), spec)


def test_anti_affinity_counts_on_each_host_by_itself():
    hosts = a_table(
        a_host("h1", instances=["a", "b"]),
        a_host("h2", instances=["c"]),
        a_host("h3", instances=["x"]),
        a_host("h4", instances=["me"]),
    )
    spec = a_member_s_request(members=["a", "b", "c", "me"], rules={"max_server_per_host": 2})
    assert ANTI.mask(hosts, spec).tolist() == [False, True, True, True]


@pytest.mark.parametrize(
    ("policy", "hosts", "reason"),
    [
        ("affinity", [], None),
        ("affinity", ["h1"], None),
        ("affinity", ["h1", "h2"], None),
        ("affinity", ["h2"], "the affinity group is on h2"),
        ("affinity", ["h3", "h2", "h3"], "the affinity group is on h2, h3"),
        ("affinity", ["H1"], "the affinity group is on H1"),
        ("soft-affinity", ["h2"], None),
        ("anti-affinity", ["h2"], None),
        (None, ["h2"], None),
    ],
)
def test_affinity_worked_cases(policy, hosts, reason):
    # Nova reads the legacy list policies and raises where only policy is set; we read policy.
    host, spec = a_host("h1"), a_member_s_request(policy=policy, hosts=hosts)
    passes = TOGETHER.host_passes(host, spec)
    assert passes == (reason is None)
    assert passes or TOGETHER.reason(host, spec) == reason


def test_affinity_allows_all_nodes_of_a_host():
    hosts = a_table(a_host("h1", "n1"), a_host("h2", "n2"), a_host("h1", "n3"))
    assert TOGETHER.mask(hosts, a_member_s_request(policy="affinity", hosts=["h1"])).tolist() == [
        True,
        False,
        True,
    ]


@pytest.mark.parametrize("rule", [ANTI, TOGETHER])
def test_a_request_without_a_group_may_go_anywhere(rule):
    assert not rule.applies(a_request())
    assert rule.host_passes(a_host(), a_request())


def test_without_a_group_the_anti_affinity_mask_itself_is_harmless():
    hosts = a_table(a_host("h1"), a_host("h2"))
    assert ANTI.mask(hosts, a_request()).tolist() == [True, True]
    assert ANTI.reason(a_host(), a_request()) == "does not pass"
