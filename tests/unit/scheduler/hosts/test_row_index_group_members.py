# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.hosts.row_index."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.hosts.host_state import HostState
from scheduler.hosts.row_index import count_members, group_counts, group_with
from tests.builders import a_group, a_request
from tests.hosts import a_host, a_table

HOSTS = ["h1", "h2", "h3"]
UUIDS = ["a", "b", "c", "d"]


@pytest.mark.parametrize("policy", [None, "affinity", "soft-affinity"])
def test_the_group_with_a_policy(policy):
    group = a_group(policy)
    expected = group if policy == "soft-affinity" else None
    assert group_with("soft-affinity", a_request(instance_group=group)) is expected
    assert group_with("soft-affinity", a_request()) is None


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ({}, [0, 0, 0]),
        ({"members": ["a", "b", "c", "gone"]}, [1, 2, 0]),
        ({"members": ["b", "b"]}, [0, 1, 0]),
        ({"hosts": ["h1", "h3", "h3", "gone", "H2"]}, [1, 0, 2]),
        # A named host has its members counted once, whichever list has more of them.
        ({"members": ["a", "b", "c"], "hosts": ["h1", "h1", "h2"]}, [2, 2, 0]),
    ],
)
def test_members_are_counted_on_each_host(group, expected):
    table = a_table(
        a_host("h1", instances=["a"]),
        a_host("h2", instances=["b", "c", "x"]),
        a_host("h3", instances=["y"]),
    )
    assert group_counts(table, a_group(**group)).members.tolist() == expected


def test_an_instance_that_moves_is_on_both_hosts_and_a_named_host_counts_with_all_its_nodes():
    table = a_table(
        a_host("h1", "n1", instances=["a"]), a_host("h1", "n2"), a_host("h2", instances=["a"])
    )
    assert group_counts(table, a_group(members=["a"])).members.tolist() == [1, 0, 1]
    assert group_counts(table, a_group(hosts=["h1"])).members.tolist() == [1, 1, 0]


def test_an_instance_that_is_placed_is_one_member_more_on_all_nodes_of_its_host():
    table = a_table(a_host("h1", "n1", instances=["a", "x"]), a_host("h1", "n2"), a_host("h2"))
    group = a_group(members=["a"])
    table.group_counts = count_members(table, group)
    HostState.of(table, 0).consume_from_request(a_request(instance_uuid="new"))
    # It is there already, and in the list.
    HostState.of(table, 0).consume_from_request(a_request(instance_uuid="a"))
    assert group_counts(table, group).members.tolist() == [2, 1, 0]
    assert table.group_counts.named.tolist() == [1, 1, 0]
    part = table.part(np.array([1, 2]), {}, np.array([0, 3]))
    assert group_counts(part, group).members.tolist() == [1, 3]
    assert group_counts(table.working_copy(), group).members.tolist() == [1, 0, 0]


@given(
    st.lists(st.sets(st.sampled_from(UUIDS)), min_size=3, max_size=3),
    st.lists(st.sampled_from(UUIDS)),
    st.lists(st.sampled_from([*HOSTS, "gone"])),
)
def test_the_count_is_the_larger_of_what_both_lists_say(instances, uuids, named):
    table = a_table(*(a_host(*each) for each in zip(HOSTS, HOSTS, strict=True)))
    for row, there in enumerate(instances):
        table.instances.replace(row, a_host(instances=there).instances)
    expected = [
        max(len(there & set(uuids)), named.count(host))
        for host, there in zip(HOSTS, instances, strict=True)
    ]
    count = group_counts(table, a_group(members=uuids, hosts=named)).members
    assert count.dtype == np.int64
    assert count.tolist() == expected
