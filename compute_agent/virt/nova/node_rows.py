# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The compute nodes of a cell, as Nova's rows have them."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from compute_agent.virt.driver import Guest, Move, NodeFacts, NodeName, Size
from compute_agent.virt.nova import node_facts
from compute_agent.virt.nova.reserves import Reserve
from inventory import stored_documents


@dataclass(slots=True)
class _Node:
    number: int
    # Of the row, whose texts are too long to be kept ten thousand times.
    digest: int
    facts: NodeFacts
    used: Size
    reserve: Reserve


class NodeRows:
    """Facts by node; changed when nodes came or went, as counted by version."""

    def __init__(self) -> None:
        self.version = 0
        # The nodes of which Nova may not have counted all instances as they are.
        self.unsettled: set[NodeName] = set()
        self._known: dict[NodeName, _Node] = {}
        self._names: dict[int, NodeName] = {}
        # Long texts that many nodes have in common.
        self._texts: dict[str, str] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def names(self) -> list[NodeName]:
        return list(self._known)

    def facts(self, name: NodeName) -> NodeFacts:
        """Return the facts of a node; raises KeyError for one that is gone."""
        return self._known[name].facts

    def apply(self, rows: Iterable[Any], hosts: Container[str]) -> set[NodeName]:
        """Take the nodes from rows, all rows of hosts; return those that changed."""
        changed, there = set(), set[int]()
        for row in rows:
            there.add(row.id)
            changed |= self._take(row)
        missing = self._names.keys() - there
        gone = [number for number in missing if self._names[number].host in hosts]
        return changed | {self._forget(number) for number in gone}

    def reserve(
        self, name: NodeName, guests: Sequence[Guest], moves: Sequence[Move], now: float
    ) -> bool:
        """Find out what is reserved of a node from what is on it; return whether that changed."""
        self.unsettled.discard(name)
        node = self._known.get(name)
        if node is None:
            return False
        before = node.facts
        node.reserve.update(name, node.used, guests, moves, now)
        if not node.reserve.is_settled:
            self.unsettled.add(name)
        node.facts = node_facts.with_reserved(before, node.reserve.size)
        return node.facts is not before

    def _take(self, row: Any) -> set[NodeName]:
        gone = bool(row.deleted) or not (row.host and row.hypervisor_hostname)
        name = NodeName(row.host or "", row.hypervisor_hostname or "")
        # A row that gets another name is another node.
        left = self._names.get(row.id, name)
        changed = (
            {self._forget(row.id)} if row.id in self._names and (gone or left != name) else set()
        )
        if gone:
            return changed
        known, digest = self._known.get(name), hash(row)
        if known and (known.number, known.digest) == (row.id, digest):
            return changed
        reserve = known.reserve if known else Reserve()
        try:
            facts = self._shared(node_facts.facts(row, reserve.size))
        except stored_documents.UNREADABLE as error:
            stored_documents.warn(
                f"The row of compute node {name.node} in Nova",
                str(error),
                "the node counts as it was read last; a node that was never read is not used."
                " Its nova-compute writes the row again with its next change",
            )
            return changed
        if known is None:
            self.version += 1
        else:
            self._names.pop(known.number, None)
        self._names[row.id] = name
        self._known[name] = _Node(row.id, digest, facts, node_facts.used(row), reserve)
        return changed | {name}

    def _forget(self, number: int) -> NodeName:
        name = self._names.pop(number)
        del self._known[name]
        self.version += 1
        return name

    def _shared(self, facts: NodeFacts) -> NodeFacts:
        text = self._texts.setdefault(facts.cpu_info, facts.cpu_info)
        return facts if text is facts.cpu_info else replace(facts, cpu_info=text)
