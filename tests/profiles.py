# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How many examples hypothesis draws for each property; `--hypothesis-profile` names one of these.

`make test` draws as many as "gate" says, and `make test-release` as many as "release" says. "night"
is for who looks for what nobody has thought of.
"""

from collections.abc import Mapping

from hypothesis import settings

EXAMPLES: Mapping[str, int] = {"gate": 12, "release": 200, "night": 5_000}


def register(repeatable: bool) -> None:
    """Register all profiles and load the one of the gate.

    repeatable asks for the same examples in each run, so that red and green do not depend on luck.
    """
    for name, examples in EXAMPLES.items():
        # What a first example costs says more about the machine than about the code.
        settings.register_profile(
            name, max_examples=examples, deadline=None, derandomize=repeatable
        )
    settings.load_profile("gate")


def one_in(number: int) -> int:
    """Return how many examples to draw for a property whose examples are so much slower."""
    return max(2, settings().max_examples // number)
