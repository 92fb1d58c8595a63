# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.numa.search."""

from itertools import combinations, permutations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from inventory.numa.search import MAX_CELLS, first_way

UNLIKE = range(16)


def anything(inside):
    return ()


def nothing(inside):
    yield False


def bits(*positions):
    return sum(1 << position for position in positions)


def by_trying_all(allowed, hosts, good):
    """Return what the definition says: the first of all permutations that will do."""
    for way in permutations(range(hosts), len(allowed)):
        fits = all(allowed[guest] >> position & 1 for guest, position in enumerate(way))
        if fits and (good is None or frozenset(way) in good):
            return list(way)
    return None


@given(st.integers(0, 5), st.data())
def test_it_is_the_first_permutation_that_will_do(hosts, data):
    allowed = data.draw(st.lists(st.integers(0, (1 << hosts) - 1), max_size=5))
    # What is allowed depends on which cells are chosen, not on their order.
    good = data.draw(st.sets(st.frozensets(st.integers(0, 4), max_size=5)) | st.none())

    def conditions(inside):
        if good is not None:
            (count,) = {len(which) for which in inside.values()} or {1}
            chosen = ({cell for cell in inside if inside[cell][number]} for number in range(count))
            yield np.array([frozenset(cells) in good for cells in chosen], np.bool_)

    assert first_way(allowed, range(hosts), conditions) == by_trying_all(allowed, hosts, good)


@given(st.integers(0, 5), st.data())
def test_which_of_the_cells_that_are_alike_makes_no_difference(hosts, data):
    allowed = data.draw(st.lists(st.integers(0, (1 << hosts) - 1), max_size=5))
    kinds = data.draw(st.lists(st.integers(0, 2), min_size=hosts, max_size=hosts))
    most = data.draw(st.integers(0, 3))

    def conditions(inside):
        yield sum(inside[cell] * kinds[cell] for cell in inside) <= most

    good = {
        frozenset(some)
        for some in combinations(range(hosts), len(allowed))
        if sum(kinds[cell] for cell in some) <= most
    }
    assert first_way(allowed, kinds, conditions) == by_trying_all(allowed, hosts, good)


def test_a_choice_that_leaves_another_without_a_place_is_not_followed():
    everywhere = bits(*range(32))
    way = first_way([everywhere] * 31 + [bits(0)], [None] * 32, anything)
    assert way == [*range(1, 32), 0]


def test_two_for_one_place_find_none():
    everywhere, last = bits(*range(32)), bits(31)
    assert first_way([everywhere] * 20 + [last, last], [None] * 32, anything) is None
    assert first_way([bits(*range(20))] * 22, [None] * 32, anything) is None


def test_all_combinations_of_16_cells_are_judged_together():
    judged = []

    def conditions(inside):
        judged.append({len(which) for which in inside.values()})
        # The last of the combinations in their order.
        yield inside[8] & inside[15] & (1 - inside[0])

    everywhere = bits(*UNLIKE)
    assert first_way([everywhere] * 8, UNLIKE, conditions) == [1, 2, 3, 4, 5, 6, 8, 15]
    assert first_way([everywhere] * 8, UNLIKE, nothing) is None
    assert judged == [{12_870}]


def test_of_cells_that_are_alike_no_more_are_looked_at_than_are_taken():
    judged = []

    def conditions(inside):
        judged.extend(inside)
        yield False

    assert first_way([bits(*UNLIKE)] * 2, [0] * 8 + [1] * 8, conditions) is None
    assert judged == [0, 1, 8, 9]


def test_of_too_many_different_cells_the_first_are_used():
    everywhere = bits(*range(MAX_CELLS))
    assert first_way([everywhere] * 8, range(MAX_CELLS), anything) == [*range(8)]
    assert first_way([everywhere] * 17, range(MAX_CELLS), anything) is None
    more = [None] * (MAX_CELLS + 1)
    assert first_way([everywhere] * MAX_CELLS, more, anything) == [*range(MAX_CELLS)]
    assert first_way([bits(MAX_CELLS)], more, anything) is None


def test_a_guest_without_cells_has_a_place():
    assert first_way([], [None] * 2, anything) == []
