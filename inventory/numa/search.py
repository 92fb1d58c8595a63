# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The first way to give each guest cell a host cell of its own.

Host cells are bits: bit 0 is the one to try first. The first way is what trying all permutations
in their order would find first, but a choice that leaves some later cell without a place is not
followed any further.
"""

from collections.abc import Callable, Iterator, Sequence

# So many guest cells no machine has; more are not looked at, which bounds the recursion.
MOST_CELLS = 64
# A way for all cells may still be refused as a whole, and then the next is looked for. Of 13 host
# cells all sets can be looked at.
MOST_STEPS = 10_000


def first_way(
    allowed: Sequence[int], hosts: int, accepts: Callable[[list[int]], bool]
) -> list[int] | None:
    """Return the position of the host cell of each guest cell, None when there is no way.

    allowed has for each guest cell the bits of the host cells that it fits, of which there are so
    many. accepts says whether these host cells will do together, in any order.
    """
    if len(allowed) > MOST_CELLS:
        return None
    refused: set[int] = set()
    steps = MOST_STEPS

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
                # Whatever order the cells were taken in, what is left is the same.
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
