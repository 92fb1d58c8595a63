# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.numa.search."""

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from inventory.numa.search import MAX_STEPS, first_way


def anything(chosen):
    return True


def bits(*positions):
    return sum(1 << position for position in positions)


def by_trying_all(allowed, hosts, accepts):
    """Return what the definition says: the first of all permutations that will do."""
    for way in permutations(range(hosts), len(allowed)):
        fits = all(allowed[guest] >> position & 1 for guest, position in enumerate(way))
        if fits and accepts(way):
            return list(way)
    return None


@given(st.integers(0, 5), st.data())
def test_it_is_the_first_permutation_that_will_do(hosts, data):
    allowed = data.draw(st.lists(st.integers(0, (1 << hosts) - 1), max_size=5))
    # What is accepted depends on which cells are chosen, not on their order.
    good = data.draw(st.sets(st.frozensets(st.integers(0, 4), max_size=5)) | st.none())

    def accepts(chosen):
        return good is None or frozenset(chosen) in good

    assert first_way(allowed, hosts, accepts) == by_trying_all(allowed, hosts, accepts)


def test_a_choice_that_leaves_another_without_a_place_is_not_followed():
    everywhere = bits(*range(32))
    assert first_way([everywhere] * 31 + [bits(0)], 32, anything) == [*range(1, 32), 0]


def test_two_for_one_place_are_found_out_without_trying():
    everywhere, last = bits(*range(32)), bits(31)
    assert first_way([everywhere] * 20 + [last, last], 32, anything) is None
    assert first_way([bits(*range(20))] * 22, 32, anything) is None


def test_each_set_of_cells_is_judged_once():
    judged = []

    def refuses(chosen):
        judged.append(frozenset(chosen))
        return False

    assert first_way([bits(*range(8))] * 8, 8, refuses) is None
    assert judged == [frozenset(range(8))]
    judged.clear()
    assert first_way([bits(*range(10))] * 5, 10, refuses) is None
    assert len(judged) == len(set(judged)) == 252


def test_the_search_ends_even_where_too_much_would_have_to_be_tried():
    judged = []
    allowed = [bits(*range(32))] * 16
    assert first_way(allowed, 32, lambda chosen: bool(judged.append(chosen))) is None
    assert len(judged) < MAX_STEPS
    assert first_way([bits(*range(100))] * 100, 100, anything) is None


def test_a_guest_without_cells_has_a_place():
    assert first_way([], 2, anything) == []
