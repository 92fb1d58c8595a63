# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Documents that rows keep as texts: one that cannot be read costs its own row, and is named once.

Such a text was cut off, written by hand, or by a release that this one does not know.
"""

import logging
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

T = TypeVar("T")
LOG = logging.getLogger(__name__)
# What parsers raise for such texts, and who works with values of other types than expected.
UNREADABLE = (
    *(ValueError, TypeError, LookupError, AttributeError),
    *(ArithmeticError, RecursionError),
)
# Characters of an error that a log line has.
_LONGEST = 200


def read(work: Callable[[str], T], text: str, noun: str, cure: str) -> T | None:
    """Return work(text), or None and log a warning where the text cannot be read.

    noun names the document and the row that has it, cure says what becomes of it and what to do.
    """
    try:
        return work(text)
    except UNREADABLE as error:
        warn(noun, f"{type(error).__name__}: {error}"[:_LONGEST], cure)
        return None


@lru_cache(4096)
def warn(noun: str, problem: str, cure: str) -> None:
    """Log a warning, once for the same document and problem."""
    LOG.warning("%s cannot be read (%s): %s", noun, problem, cure)
