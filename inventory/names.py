# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Names and short texts of operators: what fits a column and a line."""

from collections.abc import Iterable

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
