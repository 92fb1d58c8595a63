# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Among how many equally good hosts to choose, by how often claims were lost lately."""

# Widening beyond this helps no more: so many schedulers are hardly at work at a time.
MOST = 64
# After so many claims in a row that nobody disputed the choice is narrowed again.
CALM = 16


class Width:
    """Widens fast and narrows slowly, as senders on a shared line do."""

    def __init__(self) -> None:
        self.choices = 1
        self._undisputed = 0

    def lost(self) -> None:
        """Take in that somebody else was faster."""
        self.choices = min(MOST, 2 * self.choices)
        self._undisputed = 0

    def won(self) -> None:
        """Take in that a claim was made."""
        self._undisputed += 1
        if self._undisputed >= CALM:
            self._undisputed = 0
            self.choices = max(1, self.choices // 2)
