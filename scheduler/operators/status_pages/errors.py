# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Why a page is not shown.

inventory.errors.NotFound
+-- Unknown       nothing has the name in the address; links lead to what is called alike
TooLate           nobody waits for the page any more
Moved             what was looked for has a page of its own
"""

import time
from collections.abc import Callable, Iterable, Sequence

from inventory.errors import NotFound, similar

Links = Sequence[tuple[str, str]]


class Unknown(NotFound):
    """Nothing has the name; links are (name, address) of what is called alike."""

    def __init__(self, text: str, links: Links = ()) -> None:
        super().__init__(text)
        self.links = links


class TooLate(Exception):
    """Nobody waits for the page any more."""


class Moved(Exception):
    """What was looked for has a page of its own, at address."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.address = address


def unknown(kind: str, name: str, known: Iterable[str], link: Callable[[str], str]) -> Unknown:
    """Return the error for a name that nothing of a kind has."""
    links = [(each, link(each)) for each in similar(name, known)]
    return Unknown(f"there is no {kind} {name!r}", links)


def check_time(until: float) -> None:
    """Raise TooLate after a time on the monotonic clock."""
    if time.monotonic() > until:
        raise TooLate
