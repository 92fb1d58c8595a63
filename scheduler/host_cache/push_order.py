# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Changes of nodes come from many schedulers, and are applied in the order of generations."""

from collections.abc import Iterable

from inventory.claims.types import NodeChange

# How many changes of a node wait at most. Of more, all are dropped: the node is read anyway.
MAX_WAITING = 64
# For how many seconds changes may wait for others before their node is read.
PATIENCE = 1.0
# As the known generation of a node whose row cannot take changes: all of them wait.
NONE = -1


class PushOrder:
    """Holds back the changes that have come before others which they follow; times in seconds."""

    def __init__(self) -> None:
        # By node id and generation before.
        self._waiting: dict[int, dict[int, NodeChange]] = {}
        self._since: dict[int, float] = {}

    def following(self, change: NodeChange, known: int, now: float) -> list[NodeChange]:
        """Return the changes that lead from a known generation of a node to a newer one.

        That is this change with those that have waited for it, or nothing if others are missing.
        """
        node_id = change.node_id
        waiting = self._waiting.get(node_id)
        if waiting is None:
            if change.before == known:
                return [change]
            waiting, self._since[node_id] = {}, now
            self._waiting[node_id] = waiting
        elif len(waiting) >= MAX_WAITING:
            waiting.clear()
        waiting[change.before] = change
        found, newest = list[NodeChange](), known
        while newest in waiting:
            found.append(waiting.pop(newest))
            newest = found[-1].after
        if not waiting:
            del self._waiting[node_id], self._since[node_id]
        return found

    def overdue(self, now: float) -> set[int]:
        """Return the nodes whose changes have waited for too long."""
        return {node_id for node_id, since in self._since.items() if since < now - PATIENCE}

    def take(self, node_ids: Iterable[int]) -> list[NodeChange]:
        """Return the changes of nodes that wait, which are forgotten here."""
        found = list[NodeChange]()
        for node_id in node_ids if self._waiting else ():
            found += self._waiting.pop(node_id, {}).values()
            self._since.pop(node_id, None)
        return found
