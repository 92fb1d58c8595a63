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
from scheduler.host_view.promises import Place
from scheduler.host_view.rows import write_nodes, written

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
        # How often what makes them eligible had changed when services and aggregates were read:
        # what is pushed says nothing of these.
        self.eligibility: dict[int, int] = {}
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
        alive = self._alive(nodes)
        if not alive:
            return
        found = {self._hosts.row_of(*place): node for place, node in alive.items()}
        for row, node in found.items():
            if row is not None and self._node_id(row) != node.id:
                # Another one has its name now.
                self._remove(row)
        self._add([place for place in alive if self._hosts.row_of(*place) is None])
        rows = {self._row(place): node for place, node in alive.items()}
        for node in write_nodes(self._hosts, rows, self.consumed):
            self.consumed.pop(node.id, None)
        # Last: what could not be written is to be read again.
        self.generations.update({node.id: node.generation for node in alive.values()})

    def places(self, nodes: Iterable[Any]) -> set[Place]:
        """Return the names of nodes that were taken, without those that others have by now."""
        places = ((node, (node.host, node.hypervisor_hostname)) for node in nodes)
        return {
            place
            for node, place in places
            if not node.deleted or self._hosts.row_of(*place) is None
        }

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
        self.eligibility.clear()
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
        self._write_services([*self._hosts.rows()])

    def set_trust(self, levels: Mapping[str, str]) -> None:
        """Take over the levels of trust by node."""
        # As a rule nothing is new since the last request that asked.
        if levels != self._trust:
            self._trust = levels
            self._write_trust([*self._hosts.rows()])

    def _alive(self, nodes: Iterable[Any]) -> dict[Place, Any]:
        """Remove the nodes of dead rows, return the others by their names."""
        alive: dict[Place, Any] = {}
        for node in nodes:
            place = (node.host, node.hypervisor_hostname)
            if not node.deleted:
                alive[place] = node
                continue
            row = self._hosts.row_of(*place)
            if row is not None and self._node_id(row) == node.id:
                self._remove(row)
            if place in alive and alive[place].id == node.id:
                del alive[place]
            self.generations[node.id] = node.generation
        return alive

    def _add(self, places: Sequence[Place]) -> None:
        rows = self._hosts.add_each(places)
        self.moved.update(host for host, _ in places)
        self._hosts.write(rows, "cell_uuid", [self._cell_uuid] * len(rows))
        self._aggregates.write(rows)
        self._write_services(rows)
        self._write_trust(rows)

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
        for memory in (self.generations, self.eligibility, self.consumed):
            memory.pop(node_id, None)
        self.moved.add(self._hosts.get(row, "host"))
        self._hosts.remove(row)

    def _write_trust(self, rows: Sequence[int]) -> None:
        nodes = [self._hosts.get(row, "nodename") for row in rows]
        self._hosts.write(rows, "trust_level", map(self._trust.get, nodes))

    def _write_services(self, rows: Sequence[int]) -> None:
        found = {row: self._services.get(self._hosts.get(row, "host")) for row in rows}
        for row in [row for row, service in found.items() if service is None]:
            if not self._hosts.get(row, "unserved"):
                host = self._hosts.get(row, "host")
                LOG.warning("Host %s has a compute node and no compute service; not used", host)
        self._hosts.write(rows, "unserved", [service is None for service in found.values()])
        served = {row: service for row, service in found.items() if service is not None}
        for name, of in {
            "service_disabled": lambda each: services.switched_off(each)[0],
            "disabled_reason": lambda each: services.switched_off(each)[1],
            "forced_down": lambda each: each.forced_down,
            "last_seen": lambda each: self.services_at - services.heartbeat_age(each),
        }.items():
            self._hosts.write([*served], name, map(of, served.values()))

    def _node_id(self, row: int) -> int:
        found: int = self._hosts.get(row, "node_id")
        return found

    def _row(self, place: Place) -> int:
        row = self._hosts.row_of(*place)
        assert row is not None
        return row

    def _place(self, row: int) -> Place:
        return self._hosts.get(row, "host"), self._hosts.get(row, "nodename")
