# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What decisions of this process have taken of the hosts while they wait for their claims."""

from collections import Counter
from collections.abc import Collection, Iterable

from scheduler.decision.host_state import HostState, promised_instance
from scheduler.decision.host_table import HostTable
from scheduler.decision.outcome import Candidate, Decision
from scheduler.host_view.whereabouts import Whereabouts
from scheduler.objects.request_spec import RequestSpec


class Reservations:
    """Writes them into a table and counts them by node, whose row may have them already or not.

    Not locked: its owner locks it together with the table. Moments are those of one clock.
    """

    def __init__(self, hosts: HostTable, whereabouts: Whereabouts) -> None:
        self._hosts = hosts
        self._whereabouts = whereabouts
        self._open: Counter[int] = Counter()
        self._ended: dict[int, float] = {}

    @property
    def nodes(self) -> Collection[int]:
        """The nodes, by their ids, that have any now."""
        return frozenset(self._open)

    def begin(self, decision: Decision, spec: RequestSpec) -> frozenset[int]:
        """Take what a decision takes, besides cells and devices; return the nodes."""
        nodes = set()
        for placement in decision.placements:
            host, node = placement.chosen.host, placement.chosen.nodename
            row, uuid = self._hosts.row_of(host, node), placement.instance_uuid
            if row is None or placement.taken is None:
                continue
            HostState.of(self._hosts, row).take(placement.taken)
            self._hold(placement.alternates)
            nodes.add(self._hosts.get(row, "node_id"))
            if uuid:
                self._whereabouts.claim(row, promised_instance(spec, uuid, host, node))
        self._open.update(nodes)
        return frozenset(nodes)

    def _hold(self, alternates: Iterable[Candidate]) -> None:
        """Count alternates, until the rows of their nodes are read again."""
        for each in alternates:
            row = self._hosts.row_of(each.host, each.nodename)
            if row is not None:
                held = self._hosts.get(row, "held_alternates")
                self._hosts.set(row, "held_alternates", held + 1)

    def end(self, node_ids: Iterable[int], now: float) -> None:
        """Count one reservation less on each of these nodes."""
        for node_id in node_ids:
            self._ended[node_id] = now
            self._open[node_id] -= 1
            if self._open[node_id] <= 0:
                del self._open[node_id]

    def since(self, moment: float) -> set[int]:
        """Return the nodes that had any at a moment or later, and forget what was before it."""
        self._ended = {each: at for each, at in self._ended.items() if at >= moment}
        return {*self._open, *self._ended}
