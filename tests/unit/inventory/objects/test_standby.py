# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the arithmetic of standbys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.objects.amounts import covers
from inventory.objects.standby import changed, domains_text, held

amounts = st.tuples(*(st.integers(0, 1000) for _ in range(3)))
names = st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True)
standbys = st.lists(st.tuples(names, amounts), max_size=8)


def sums_of(each):
    found = {}
    for domains, size in each:
        found = changed(found, domains, size)
    return found


def test_a_node_holds_the_largest_sum_of_each_resource():
    assert held({"a": (4, 100, 0), "b": (1, 900, 7)}) == (4, 900, 7)
    assert held({}) == (0, 0, 0)


def test_standbys_of_one_domain_add_up_and_those_of_two_share():
    one = changed({}, ["a"], (2, 10, 5))
    assert held(changed(one, ["a"], (2, 10, 5))) == (4, 20, 10)
    assert held(changed(one, ["b"], (2, 10, 5))) == (2, 10, 5)


def test_a_standby_counts_for_each_domain_of_its_instance():
    found = changed(changed({}, ["a", "b"], (2, 10, 5)), ["b"], (1, 1, 1))
    assert found == {"a": (2, 10, 5), "b": (3, 11, 6)}


@given(standbys, st.integers(0, 7))
def test_what_is_held_is_enough_for_any_one_domain_and_no_more(each, at):
    found = held(sums_of(each))
    by_domain = {
        name: tuple(sum(size[at] for domains, size in each if name in domains) for at in range(3))
        for name in "abc"
    }
    assert all(covers(found, needed) for needed in by_domain.values())
    assert found == tuple(max(column) for column in zip(*by_domain.values(), strict=True))


@given(standbys, names, amounts)
def test_a_standby_that_ends_leaves_nothing_behind(each, domains, size):
    before = sums_of(each)
    after = changed(changed(before, domains, size), domains, size, -1)
    assert held(after) == held(before)
    assert {name: sums for name, sums in before.items() if any(sums)} == after


def test_names_of_domains_are_sorted():
    assert domains_text({"b", "a"}) == "a,b"


@pytest.mark.parametrize("sign", [1, -1])
def test_nothing_is_no_entry(sign):
    assert changed({}, ["a"], (0, 0, 0), sign) == {}
