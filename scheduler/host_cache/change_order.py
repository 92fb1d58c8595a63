# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Changes of nodes come from many schedulers, and are applied in the order of generations."""

from collections.abc import Iterable

from inventory.claims.types import NodeChange

# How many changes of a node wait at most. Of more, all are dropped: the node is read anyway.
MAX_WAITING = 64


class ChangeOrder:
    """Holds back the changes that have come before others which they follow."""

    def __init__(self) -> None:
        # By node id and generation before.
        self._waiting: dict[int, dict[int, NodeChange]] = {}

    def following(self, change: NodeChange, known: int) -> list[NodeChange]:
        """Return the changes that lead from a known generation of a node to a newer one.

        That is this change with those that have waited for it, or nothing if others are missing.
        """
        waiting = self._waiting.get(change.node_id)
        if waiting is None:
            if change.before == known:
                return [change]
            waiting = self._waiting[change.node_id] = {}
        elif len(waiting) >= MAX_WAITING:
            waiting.clear()
        waiting[change.before] = change
        found, newest = list[NodeChange](), known
        while newest in waiting:
            found.append(waiting.pop(newest))
            newest = found[-1].after
        if not waiting:
            del self._waiting[change.node_id]
        return found

    def take(self, node_ids: Iterable[int]) -> list[NodeChange]:
        """Return the changes of nodes that wait, which are forgotten here."""
        if not self._waiting:
            return []
        found = [self._waiting.pop(each, {}) for each in node_ids]
        return [change for waiting in found for change in waiting.values()]
