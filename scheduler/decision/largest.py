# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The largest instance for which there is still a host."""

from collections.abc import Callable
from dataclasses import dataclass

from scheduler.decision.outcome import Candidate

# What a column of the inventory holds.
CEILING = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Largest:
    """The largest size for which a host was found, and that host.

    Without a host, size is 0: there is none for the smallest one either. is_bounded is False where
    no size that can be written down is too large.
    """

    size: int
    host: Candidate | None = None
    is_bounded: bool = True


def largest(find: Callable[[int], Candidate | None], start: int = 1) -> Largest:
    """Return the largest size from 1 on for which find() returns a host.

    Where one size is too large, all above it have to be. start is where the search begins.
    """
    low, size = Largest(0), max(1, start)
    high = CEILING + 1
    while low.size + 1 < high:
        host = find(size)
        if host is None:
            high = size
        else:
            low = Largest(size, host)
        size = min(2 * low.size, CEILING) if high > CEILING else (low.size + high) // 2
        size = max(size, low.size + 1)
    return Largest(low.size, low.host, is_bounded=low.size < CEILING)
