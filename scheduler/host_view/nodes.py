# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The nodes of a table: their rows in the inventory, and the services that build on them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from oslo_log import log

from inventory import services
from scheduler.decision.host_table import HostTable
from scheduler.host_view.aggregates import HostAggregates
from scheduler.host_view.changes import Changes
from scheduler.host_view.rows import write_node, written

LOG = log.getLogger(__name__)
# How far a row that is pushed may be ahead of the database's clock as it is known here, in seconds.
# What was taken from a host before a row was written does not count any more: a row of next year
# would count for a year.
MOST_AHEAD = 60.0


class Nodes:
    """Keeps the nodes of a table. Not locked: its owner locks it together with the table."""

    def __init__(
        self, hosts: HostTable, aggregates: HostAggregates, cell_uuid: str | None = None
    ) -> None:
        self._hosts = hosts
        self._aggregates = aggregates
        self._cell_uuid = cell_uuid
        # Of which generation the rows are; those of dead nodes stay until all are read anew.
        self.generations: dict[int, int] = {}
        # Hosts whose nodes have come or gone since somebody cleared this.
        self.moved: set[str] = set()
        self.services_at = float("-inf")
        self._services: Mapping[str, Any] = {}
        self._trust: Mapping[str, str] = {}
        # When something was consumed from a node that its row does not know of yet: in seconds
        # since 1970 on the database's clock.
        self.consumed: dict[int, float] = {}

    def newer(self, nodes: Iterable[Any], doubtful: Collection[int]) -> list[Any]:
        """Return the rows that are newer than what is known, and the same again where in doubt."""
        return [
            node
            for node in nodes
            if self._is_newer(node)
            or (node.id in doubtful and node.generation == self.generations[node.id])
        ]

    def news(self, nodes: Iterable[Any], last: Changes, now: float) -> list[Any]:
        """Return the rows that were pushed and are newer than what is known, and can be true.

        now is in seconds since 1970 on the database's clock.
        """
        return [node for node in nodes if self._is_newer(node) and self._can_be(node, last, now)]

    def missed(self, found: Changes, last: Changes | None) -> list[str]:
        """Return the hosts of rows that an earlier reading, the last one, had to find."""
        if last is None:
            return []
        newer = (node for node in found.nodes if self._is_newer(node))
        return [node.host for node in newer if last.ought_to_have(node)]

    def consume(self, row: int, moment: float) -> None:
        """Let what was consumed from a row count until its node is written later than this."""
        self.consumed[self._node_id(row)] = moment
        self._hosts.set(row, "updated", moment)

    def take(self, nodes: Iterable[Any]) -> None:
        """Write rows of the inventory into the table, and remove the nodes of dead ones."""
        for node in nodes:
            self._take(node)

    def keep(self, nodes: Sequence[Any], busy: Collection[int] = ()) -> list[Any]:
        """Forget all nodes but these, and of which generations they are; return those to take.

        Of the nodes that are busy those stay as they are whose rows are still the same.
        """
        alive = {(node.host, node.hypervisor_hostname) for node in nodes}
        for row in list(self._hosts.rows()):
            if self._place(row) not in alive:
                self._remove(row)
        known = {each: self.generations[each] for each in busy if each in self.generations}
        same = {node.id for node in nodes if known.get(node.id) == node.generation}
        # Whatever was known: the database may have been restored from a backup.
        self.generations = {each: known[each] for each in same}
        return [node for node in nodes if node.id not in same] if same else list(nodes)

    def forget(self, node_ids: Collection[int]) -> None:
        """Remove nodes by their ids, as far as they are there."""
        if node_ids:
            wanted = {*node_ids}
            for row in [r for r in self._hosts.rows() if self._node_id(r) in wanted]:
                self._remove(row)

    def read_services(self, found: Iterable[Any], began: float) -> None:
        """Take over all compute services, which were read at a moment of the monotonic clock."""
        self._services = {service.host: service for service in found}
        self.services_at = began

    def write_services(self) -> None:
        """Write what is known of the services into all rows."""
        for row in self._hosts.rows():
            self._write_service(row)

    def set_trust(self, levels: Mapping[str, str]) -> None:
        """Take over the levels of trust by node."""
        # As a rule nothing is new since the last request that asked.
        if levels != self._trust:
            self._trust = levels
            for row in self._hosts.rows():
                self._write_trust(row)

    def _take(self, node: Any) -> None:
        row = self._hosts.row_of(node.host, node.hypervisor_hostname)
        same = row is not None and self._node_id(row) == node.id
        if row is not None and same == bool(node.deleted):
            # It is gone, or another one has its name now.
            self._remove(row)
            row = None
        if node.deleted:
            self.generations[node.id] = node.generation
            return
        if row is None:
            row = self._hosts.add(node.host, node.hypervisor_hostname)
            self.moved.add(node.host)
            self._hosts.set(row, "cell_uuid", self._cell_uuid)
            self._aggregates.write(row)
            self._write_service(row)
            self._write_trust(row)
        if write_node(self._hosts, row, node, self.consumed.get(node.id, 0.0)):
            self.consumed.pop(node.id, None)
        # Last: one that could not be written is to be read again.
        self.generations[node.id] = node.generation

    def _is_newer(self, node: Any) -> bool:
        return bool(node.generation > self.generations.get(node.id, -1))

    def _can_be(self, node: Any, last: Changes, now: float) -> bool:
        if written(node) - now > MOST_AHEAD:
            return False
        if node.deleted or node.id in self.generations:
            return True
        # A node that the last reading ought to have found, and has not, was deleted before it. One
        # whose service is still to be read could not be used; it is read together with that.
        return node.host in self._services and not last.ought_to_have(node)

    def _remove(self, row: int) -> None:
        node_id = self._node_id(row)
        self.generations.pop(node_id, None)
        self.consumed.pop(node_id, None)
        self.moved.add(self._hosts.get(row, "host"))
        self._hosts.remove(row)

    def _write_trust(self, row: int) -> None:
        level = self._trust.get(self._hosts.get(row, "nodename"))
        if self._hosts.get(row, "trust_level") != level:
            self._hosts.set(row, "trust_level", level)

    def _write_service(self, row: int) -> None:
        host = self._hosts.get(row, "host")
        service = self._services.get(host)
        known = self._hosts.get(row, "unserved")
        self._hosts.set(row, "unserved", service is None)
        if service is None:
            if not known:
                LOG.warning("Host %s has a compute node and no compute service; not used", host)
            return
        disabled, reason = services.switched_off(service)
        self._hosts.set(row, "service_disabled", disabled)
        self._hosts.set(row, "disabled_reason", reason)
        self._hosts.set(row, "forced_down", service.forced_down)
        self._hosts.set(row, "last_seen", self.services_at - services.heartbeat_age(service))

    def _node_id(self, row: int) -> int:
        found: int = self._hosts.get(row, "node_id")
        return found

    def _place(self, row: int) -> tuple[str, str]:
        return self._hosts.get(row, "host"), self._hosts.get(row, "nodename")
