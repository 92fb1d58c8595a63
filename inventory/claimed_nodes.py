# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What a request changes of all nodes that it concerns, written in one order by everybody."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from inventory import claimed_usage, compute_nodes
from inventory.claimed_documents import documents_of, given_back
from inventory.claimed_usage import Change, Wanted


@dataclass(frozen=True, slots=True)
class NodeDocuments:
    """The documents of a node as the request leaves them, if it still has this generation."""

    generation: int
    texts: Mapping[str, str | None]


class NoRoom(Exception):
    """What was to be claimed on a node does not fit."""

    def __init__(self, node_id: int) -> None:
        super().__init__(f"no room on node {node_id}")
        self.node_id = node_id


def changes(
    old: Iterable[sa.Row[Any]],
    claims: Iterable[Wanted] = (),
    documents: Mapping[int, NodeDocuments] | None = None,
) -> dict[int, Change]:
    """Return by node what it means to give back old claims and to make new ones."""
    found: dict[int, Change] = {}
    for row in old:
        found.setdefault(row.compute_node_id, Change()).give_back(row)
    for claim in claims:
        found.setdefault(claim.node_id, Change()).take(claim)
    for node_id, each in (documents or {}).items():
        found[node_id].documents, found[node_id].generation = each.texts, each.generation
    return found


def write(
    connection: sa.Connection,
    changes: Mapping[int, Change],
    old: Sequence[sa.Row[Any]],
    instead: Mapping[int, Change | None] | None = None,
) -> set[int]:
    """Write changes in the order of the nodes, with the documents of what is given back.

    instead is what to write of a node, if anything, where its change does not fit. Return the
    nodes where that was done; raises NoRoom.
    """
    instead, refused = instead or {}, set()
    for node_id in sorted(changes):
        documented = [
            row for row in old if row.compute_node_id == node_id and (row.numa or row.pci)
        ]
        if _fits(connection, node_id, changes[node_id], documented):
            continue
        if node_id not in instead:
            raise NoRoom(node_id)
        # Now, not after the others: nobody may wait for this node who holds one after it.
        other = instead[node_id]
        if other is not None and not _fits(connection, node_id, other, documented):
            raise NoRoom(node_id)
        refused.add(node_id)
    return refused


def _fits(
    connection: sa.Connection, node_id: int, change: Change, documented: Sequence[sa.Row[Any]]
) -> bool:
    for row in compute_nodes.lock(connection, [node_id]) if documented else ():
        texts = documents_of(row) | dict(change.documents)
        change.documents = given_back(texts, documented)
    # A row that somebody has deleted for good has nothing to be given back.
    return claimed_usage.write(connection, node_id, change) or not change.takes
