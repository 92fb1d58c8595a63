# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Find a host cell for each guest cell."""

from collections.abc import Callable, Iterator, Sequence

# No machine has more cells; guests with more are refused, which bounds the recursion.
MAX_CELLS = 64
# A combination may be refused as a whole, and then the next is tried. This is enough for all
# combinations of 13 host cells.
MAX_STEPS = 10_000


def first_way(
    allowed: Sequence[int], hosts: int, accepts: Callable[[list[int]], bool]
) -> list[int] | None:
    """Return the position of the host cell of each guest cell, None if there is no combination.

    allowed has for each guest cell the bits of the host cells that it fits, out of hosts. accepts
    judges a combination of host cells, in any order.
    """
    if len(allowed) > MAX_CELLS:
        return None
    refused: set[int] = set()
    steps = MAX_STEPS

    def rest(index: int, free: int, chosen: list[int]) -> list[int] | None:
        nonlocal steps
        steps -= 1
        if index == len(allowed):
            return chosen if accepts(chosen) else None
        for position in _positions(allowed[index] & free):
            left = free & ~(1 << position)
            if steps > 0 and left not in refused and _all_find(allowed[index + 1 :], left):
                found = rest(index + 1, left, [*chosen, position])
                if found is not None:
                    return found
                # What is left does not depend on the order of the cells before.
                refused.add(left)
        return None

    return rest(0, (1 << hosts) - 1, []) if _all_find(allowed, (1 << hosts) - 1) else None


def _all_find(allowed: Sequence[int], free: int) -> bool:
    """Return whether each guest cell can have one of the free host cells to itself."""
    owners: dict[int, int] = {}

    def finds(guest: int, tried: set[int]) -> bool:
        for position in _positions(allowed[guest] & free):
            if position not in tried:
                tried.add(position)
                if position not in owners or finds(owners[position], tried):
                    owners[position] = guest
                    return True
        return False

    return all(finds(guest, set()) for guest in range(len(allowed)))


def _positions(bits: int) -> Iterator[int]:
    """Yield the positions of the bits that are set, the lowest first."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
