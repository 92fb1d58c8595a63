# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How many members of the server group that a request is about are on each host."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Membership:
    """Members by row, and how many of them are there since the group's own list names the host."""

    members: Counts
    named: Counts

    def add(self, rows: Sequence[int], times: Counts | int = 1) -> None:
        """Count members more on these rows."""
        self.members[rows] += times
        self.named[rows] += times

    def take(self, rows: Collection[int], is_new: bool) -> None:
        """Count an instance on the rows of its host; one that is there already is counted once.

        Where nobody has counted it since no list names it, it is a member all the same.
        """
        for column in (self.members, self.named):
            for row in rows:
                column[row] = column[row] + 1 if is_new else max(column[row], 1)

    def part(self, rows: npt.NDArray[np.int64], times: Counts | int) -> "Membership":
        """Return that of some rows with so many members more each."""
        return Membership(self.members[rows] + times, self.named[rows] + times)
