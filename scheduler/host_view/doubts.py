# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Nodes of which this process knows that it does not know what they have left."""

from collections.abc import Iterable, Mapping
from itertools import count


class Doubts:
    """By the ids of nodes. Each doubt has a mark of its own, which tells it from later ones.

    Not locked: their owner locks them together with what they are about.
    """

    def __init__(self) -> None:
        self._open: dict[int, int] = {}
        self._marks = count()

    @property
    def open(self) -> Mapping[int, int]:
        """Return {node id: mark} as it is now."""
        return self._open.copy()

    def add(self, node_ids: Iterable[int]) -> None:
        """Doubt these nodes, again where they are doubted already."""
        self._open.update(dict.fromkeys(node_ids, next(self._marks)))

    def end(self, read: Mapping[int, int]) -> None:
        """Take it that nodes were read after these doubts had come up."""
        for node_id, mark in read.items():
            if self._open.get(node_id) == mark:
                del self._open[node_id]
