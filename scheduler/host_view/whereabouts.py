# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Which instances are on which hosts, put together from everyone who says so.

An instance is where an agent's row has it, where a scheduler has claimed room for it, where a
decision has sent it, and where the compute service of the host told that it is. Of what is known
about it the newest holds, and what was known before where that says nothing.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from inventory.instance_states import released
from scheduler.decision.host_table import HostTable
from scheduler.host_view.changes import Changes
from scheduler.host_view.claimed import ClaimedInstances
from scheduler.host_view.instance_facts import instance_of, merged
from scheduler.host_view.promises import Place, Promises
from scheduler.host_view.rows import seconds, written
from scheduler.host_view.tracking import ToldInstances
from scheduler.objects.instance import Instance

# The database's clock has whole seconds, and its time is known here to about as much.
_ROUNDING = 1.0


class Whereabouts:
    """Keeps the residents of a table. Not locked: its owner locks it together with the table."""

    def __init__(self, hosts: HostTable) -> None:
        self._hosts = hosts
        # The rows of the inventory, and which of them were told to be gone, when: in seconds since
        # 1970 on the database's clock.
        self._reported: dict[Place, dict[str, Instance]] = {}
        self._denied: dict[Place, dict[str, float]] = {}
        self._claimed = ClaimedInstances()
        self._promises = Promises()
        self._told = ToldInstances()

    def read(self, changes: Changes, now: float) -> None:
        """Take over the rows of the inventory, and give up what was promised for too long."""
        live = []
        for row in changes.instances:
            if row.deleted or released(row.vm_state, row.task_state):
                self._unreport((row.host, row.node), row.uuid)
            else:
                self._report((row.host, row.node), row)
                live.append(row)
        if changes.complete:
            self._forget_missing(live)
        for node in changes.nodes:
            self._believe_audit((node.host, node.hypervisor_hostname), node)
        self._read_claims(changes)
        for uuid, (host, _) in self._promises.expired(now):
            self._settle(host, uuid)

    def claim(self, row: int, instance: Instance) -> None:
        """Take it that a claim for an instance is on a row, until the claims there are read."""
        self._claimed.put(self._node_id(row), instance)
        self._settle_claim(self._place(row), instance.uuid, instance)

    def reports(self, place: Place, uuid: str) -> bool:
        """Return whether the agent of a node has reported an instance that is there still."""
        return uuid in self._reported.get(place, {}) and uuid not in self._denied.get(place, {})

    def promise(self, row: int, uuid: str, known: Instance | None, now: float) -> None:
        """Remember that a decision sent an instance to a row, which it was written into already.

        known is what the row had in its place before.
        """
        residents = self._hosts.residents
        sent = residents.on(row)[uuid]
        if known is not None:
            sent = merged(known, sent)
            residents.add(row, uuid, sent)
        before = [self._place(each) for each in residents.rows_of(uuid)]
        older = self._promises.add(sent, self._place(row), now, before)
        if older is not None:
            self._settle(older[0], uuid)

    def tell(self, host: str, instances: Iterable[Instance]) -> None:
        """Take in that the compute service of a host has these instances, others perhaps too."""
        for instance in instances:
            self._undeny(host, instance.uuid)
            told = self._told.put(host, instance)
            self._settle(host, instance.uuid, told)
            row = self._told_row(host, told) if told else None
            if row is not None:
                self._arrive(instance.uuid, self._place(row))

    def tell_gone(self, host: str, uuid: str, moment: float) -> None:
        """Take in that a host has lost an instance, until its agent looks again and still sees it.

        The moment is in seconds since 1970 on the database's clock.
        """
        self._told.drop(host, uuid)
        self._promises.withdraw(uuid, host)
        for row in self._hosts.rows_of_host(host):
            self._claimed.drop(self._node_id(row), uuid)
        for place in self._places(host):
            if uuid in self._reported.get(place, {}):
                self._denied.setdefault(place, {})[uuid] = moment + _ROUNDING
        self._settle(host, uuid)

    def tell_all(self, host: str, uuids: Iterable[str]) -> None:
        """Take in the uuids of all instances that a compute service has."""
        wanted = dict.fromkeys(uuids)
        for uuid in [each for each in self._told.on(host) if each not in wanted]:
            self._told.drop(host, uuid)
            self._settle(host, uuid)
        known = set(self._told.on(host))
        for place in self._places(host):
            known |= self._reported.get(place, {}).keys() - self._denied.get(place, {}).keys()
        self.tell(host, [Instance(uuid=uuid) for uuid in wanted if uuid not in known])

    def forget_told(self, hosts: Iterable[str] | None = None) -> None:
        """Forget what the compute services of some hosts told, or of all."""
        for host in self._told.hosts() if hosts is None else hosts:
            uuids = list(self._told.on(host))
            self._told.forget(host)
            for uuid in uuids:
                self._settle(host, uuid)

    def follow(self, hosts: Iterable[str]) -> None:
        """Write anew what is known of hosts whose nodes have come or gone."""
        for host in hosts:
            places = self._places(host)
            if not places:
                self.forget_told([host])
            uuids = {uuid for place in places for uuid in self._reported.get(place, ())}
            uuids |= {uuid for uuid, place in self._promises if place in places}
            for row in self._hosts.rows_of_host(host):
                uuids |= self._claimed.on(self._node_id(row)).keys()
            for uuid in uuids.union(self._told.on(host)):
                self._settle(host, uuid)

    def _read_claims(self, changes: Changes) -> None:
        """Replace what is claimed on nodes whose rows were read."""
        claimed: dict[int, dict[str, Instance]] = defaultdict(dict)
        for row in changes.claims:
            claimed[row.compute_node_id][row.uuid] = instance_of(row)
        for node in changes.nodes:
            found = {} if node.deleted else claimed.get(node.id, {})
            if found or self._claimed.on(node.id):
                for uuid in self._claimed.replace(node.id, found):
                    place = (node.host, node.hypervisor_hostname)
                    self._settle_claim(place, uuid, found.get(uuid))
        if changes.complete:
            self._claimed.keep(set(self._hosts.node_id.tolist()))

    def _settle_claim(self, place: Place, uuid: str, claimed: Instance | None) -> None:
        # An instance that is seen is no longer what it was to be.
        self._settle(place[0], uuid, None if self.reports(place, uuid) else claimed)

    def _report(self, place: Place, row: Any) -> None:
        here = self._reported.setdefault(place, {})
        before, instance = here.get(row.uuid), instance_of(row)
        denied = self._denied.get(place, {})
        if denied and denied.get(row.uuid, float("inf")) < seconds(row.updated_at):
            del denied[row.uuid]
            before = None
        at = self._hosts.row_of(*place)
        if at is not None:
            self._arrive(row.uuid, place)
        if instance == before:
            return
        here[row.uuid] = instance
        residents, told = self._hosts.residents, self._told.on(place[0])
        if at is None or row.uuid in residents.on(at) or row.uuid in told or row.uuid in denied:
            self._settle(place[0], row.uuid, instance)
        else:
            # Nobody else says anything, as of most instances: there is nothing to put together.
            residents.add(at, row.uuid, instance)

    def _unreport(self, place: Place, uuid: str) -> None:
        here = self._reported.get(place, {})
        if here.pop(uuid, None) is not None:
            self._denied.get(place, {}).pop(uuid, None)
            self._settle(place[0], uuid)
            if not here:
                del self._reported[place]

    def _forget_missing(self, rows: Sequence[Any]) -> None:
        # These rows are all reported by now; were any others, they would be more.
        if sum(map(len, self._reported.values())) == len(rows):
            return
        live = {(row.host, row.node, row.uuid) for row in rows}
        for place, here in list(self._reported.items()):
            for uuid in [each for each in here if (*place, each) not in live]:
                self._unreport(place, uuid)

    def _believe_audit(self, place: Place, node: Any) -> None:
        """End the denial of instances that the agent saw in an audit since."""
        denied = self._denied.get(place, {})
        at = written(node)
        for uuid in [each for each, moment in denied.items() if moment < at]:
            del denied[uuid]
            self._settle(place[0], uuid)
        if not denied:
            self._denied.pop(place, None)

    def _undeny(self, host: str, uuid: str) -> None:
        for place in self._places(host):
            self._denied.get(place, {}).pop(uuid, None)

    def _arrive(self, uuid: str, place: Place) -> None:
        promised = self._promises.kept(uuid, place)
        if promised is not None and promised != place:
            self._settle(promised[0], uuid)

    def _settle(self, host: str, uuid: str, newest: Instance | None = None) -> None:
        """Write into the nodes of a host what all sources together say about an instance.

        newest is what one of them has just said.
        """
        residents = self._hosts.residents
        for row in list(self._hosts.rows_of_host(host)):
            said = list(self._sources(row, host, uuid))
            if not said:
                residents.discard(row, uuid)
                continue
            known = residents.on(row).get(uuid)
            if known is not None:
                said = [known, *(each for each in said if each is newest)]
            self._write(row, said)

    def _write(self, row: int, said: list[Instance]) -> None:
        found, *newer = said
        for each in newer:
            found = merged(found, each)
        place = self._place(row)
        if (found.host, found.node) != place:
            found = replace(found, host=place[0], node=place[1])
        if self._hosts.residents.on(row).get(found.uuid) is not found:
            self._hosts.residents.add(row, found.uuid, found)

    def _sources(self, row: int, host: str, uuid: str) -> Iterator[Instance]:
        """Yield what is said of an instance by those who say that it is on a row."""
        place = self._place(row)
        promised = self._promises.get(uuid, place)
        if promised is not None:
            yield promised
        claimed = self._claimed.on(self._node_id(row)).get(uuid)
        if claimed is not None:
            yield claimed
        told = self._told.on(host).get(uuid)
        if told is not None and self._told_row(host, told) == row:
            yield told
        if self.reports(place, uuid):
            yield self._reported[place][uuid]

    def _told_row(self, host: str, told: Instance) -> int | None:
        """Return the row of an instance that a compute service told of, None for an unknown host.

        A service may have several nodes. Where it does not say which, others may know.
        """
        named = self._hosts.row_of(host, told.node or "")
        if named is not None:
            return named
        rows = list(self._hosts.rows_of_host(host))
        for row in rows:
            place = self._place(row)
            expected = told.uuid in self._claimed.on(self._node_id(row))
            if expected or self.reports(place, told.uuid) or self._promises.get(told.uuid, place):
                return row
        return rows[0] if rows else None

    def _places(self, host: str) -> list[Place]:
        return [self._place(row) for row in self._hosts.rows_of_host(host)]

    def _node_id(self, row: int) -> int:
        found: int = self._hosts.get(row, "node_id")
        return found

    def _place(self, row: int) -> Place:
        return self._hosts.get(row, "host"), self._hosts.get(row, "nodename")
