# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Long lists in pieces: SQL statements grow with the number of values in them."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

# So many at a time suit both databases.
CHUNK = 500


def chunks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the items in their order, at most CHUNK of them at a time."""
    return (items[start : start + CHUNK] for start in range(0, len(items), CHUNK))
