# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Find a host cell for each guest cell, where a combination may be refused as a whole.

All combinations are judged together and not one after the other, so that it takes no longer to
refuse a guest than to find it a place. Host cells that are alike are a group; a state says how many
cells of each group are taken.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import reduce
from math import prod
from operator import or_

import numpy as np
import numpy.typing as npt

# Enough for 16 host cells, and for more if some of them are alike. Others, the last
# in the order of preference, are not looked at.
MAX_STATES = 1 << 16
# A combination is a number with a bit for each host cell.
MAX_CELLS = 64

# 1 for each combination of host cells that something is true of, 0 for the others.
Which = npt.NDArray[np.uint8]
# Takes, for each host cell, which combinations it is in; yields which are allowed.
Conditions = Callable[[Mapping[int, Which]], Iterable[Which | bool]]
Groups = Sequence[Sequence[int]]


def first_way(
    allowed: Sequence[int], kinds: Sequence[Hashable], conditions: Conditions
) -> list[int] | None:
    """Return the position of the host cell of each guest cell, None if there is no way.

    Of all ways this is the first in the order of host cells. allowed has for each guest cell the
    bits of the host cells that it fits; kinds has a key for each host cell, equal for those that
    are all the same to conditions.
    """
    groups = _groups(allowed, kinds)
    strides = [prod(len(each) + 1 for each in groups[index + 1 :]) for index in range(len(groups))]
    fits = [[bits >> group[0] & 1 for group in groups] for bits in allowed]
    # Sets of states, as numbers with a bit for each, from which all remaining guest cells find host
    # cells: first if none remain, then with one more each time.
    good = [_complete(groups, len(allowed), conditions)]
    for fitting in reversed(fits):
        # With a full group this gives states of too many cells, which are never looked up.
        steps = (good[-1] >> stride for stride, fit in zip(strides, fitting, strict=True) if fit)
        good.append(reduce(or_, steps, 0))
    return _first(groups, strides, fits, good[::-1]) if good[-1] & 1 else None


def _first(
    groups: Groups, strides: Sequence[int], fits: Sequence[Sequence[int]], good: Sequence[int]
) -> list[int]:
    """Return the first way from the state 0 that stays in the sets of good states."""
    way: list[int] = []
    state, left = 0, [list(reversed(group)) for group in groups]
    for fitting, following in zip(fits, good[1:], strict=True):
        _, index = min(
            (group[-1], index)
            for index, group in enumerate(left)
            if group and fitting[index] and following >> (state + strides[index]) & 1
        )
        way.append(left[index].pop())
        state += strides[index]
    return way


def _groups(allowed: Sequence[int], kinds: Sequence[Hashable]) -> Groups:
    """Return the positions of the host cells of each group, no more than the guest can take."""
    groups: dict[Hashable, list[int]] = {}
    states = 1
    for position, kind in enumerate(kinds[:MAX_CELLS]):
        guests = tuple(bits >> position & 1 for bits in allowed)
        group = groups.get((guests, kind), [])
        more = states // (len(group) + 1) * (len(group) + 2)
        if any(guests) and len(group) < len(allowed) and more <= MAX_STATES:
            groups[guests, kind] = [*group, position]
            states = more
    return list(groups.values())


def _complete(groups: Groups, count: int, conditions: Conditions) -> int:
    """Return the states with this number of cells that the conditions allow."""
    cells = [each for group in groups for each in group]
    masks = np.zeros(1, np.min_scalar_type(sum(1 << each for each in cells)))
    for group in reversed(groups):
        taken = [sum(1 << each for each in group[:size]) for size in range(len(group) + 1)]
        masks = (np.array(taken, masks.dtype)[:, np.newaxis] | masks).ravel()
    states = np.flatnonzero(np.bitwise_count(masks) == count)
    chosen = masks[states]
    good = np.ones(len(states), np.uint8)
    for which in conditions({each: (chosen >> each & 1).astype(np.uint8) for each in cells}):
        good &= which
    bits = np.zeros(len(masks), np.uint8)
    bits[states] = good
    return int.from_bytes(np.packbits(bits, bitorder="little").tobytes(), "little")
