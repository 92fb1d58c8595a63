# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Names and short texts of operators: what fits a column and a line."""

from collections.abc import Iterable
from difflib import get_close_matches

from inventory.refusals import Malformed

LONGEST = 255
# So many are named in a line.
_SHOWN = 3


def checked(argument: str, text: str) -> str:
    """Return a text without blanks around it; raises Malformed, which names the argument."""
    found = text.strip()
    if not found:
        raise Malformed(argument, "is empty")
    if len(found) > LONGEST:
        raise Malformed(argument, f"{len(found)} characters, at most {LONGEST} are kept")
    if not found.isprintable():
        raise Malformed(argument, "has characters that cannot be shown in a line")
    return found


def some(texts: Iterable[str]) -> str:
    """Return names for a line, which is not to become too long."""
    known = sorted(texts)
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return ", ".join(known[:_SHOWN]) + more


def nearest(name: str, known: Iterable[str], otherwise: str) -> str:
    """Return the end of a message that there is nothing of a name: which names are like it.

    Where none is, this is what otherwise says.
    """
    folded = {each.casefold(): each for each in known}
    found = get_close_matches(name.casefold(), sorted(folded), n=3)
    return f"did you mean {' or '.join(folded[each] for each in found)}?" if found else otherwise
