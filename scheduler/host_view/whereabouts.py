# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Which instances are on which hosts, put together from everyone who says so.

An instance is where an agent's row has it, where a scheduler has claimed room for it, where a
decision has sent it, and where the compute service of the host told that it is. Of what is known
about it the newest holds, and what was known before where that says nothing.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

from inventory.instance_states import released
from scheduler.decision.host_table import HostTable
from scheduler.host_view.changes import Changes
from scheduler.host_view.claimed import ClaimedInstances
from scheduler.host_view.disputes import Disputes
from scheduler.host_view.instance_facts import instance_of, merged
from scheduler.host_view.promises import Place, Promises
from scheduler.host_view.reported import ROUNDING, ReportedInstances
from scheduler.host_view.rows import seconds, written
from scheduler.host_view.tracking import ToldInstances
from scheduler.objects.instance import Instance


class Whereabouts:
    """Keeps the residents of a table. Not locked: its owner locks it together with the table.

    Moments are in seconds since 1970 on the database's clock.
    """

    def __init__(self, hosts: HostTable) -> None:
        self._hosts = hosts
        self._reported = ReportedInstances()
        self._claimed = ClaimedInstances()
        self._promises = Promises()
        self._told = ToldInstances()
        self.disputes = Disputes()
        # When the inventory was last read.
        self._read_at = float("-inf")

    def read(self, changes: Changes, now: float) -> None:
        """Take over the rows of the inventory, and give up what was promised for too long.

        now is in seconds of the clock that promises go by.
        """
        self._read_instances(changes)
        for node in changes.nodes:
            place = (node.host, node.hypervisor_hostname)
            for uuid in self._reported.seen_again(place, written(node)):
                self._settle(node.host, uuid)
        self._read_claims(changes)
        for uuid, (host, _) in self._promises.expired(now):
            self._settle(host, uuid)
        if changes.complete:
            for host, uuid in self._told.expired(seconds(changes.now)):
                self._settle(host, uuid)

    def nodes_of(self, hosts: Iterable[str]) -> set[int]:
        """Return the ids of the nodes of some hosts."""
        return {self._node_id(row) for host in hosts for row in self._hosts.rows_of_host(host)}

    def claim(self, row: int, instance: Instance) -> None:
        """Take it that a claim for an instance is on a row, until the claims there are read."""
        self._claimed.put(self._node_id(row), instance)
        self._settle_claim(self._place(row), instance.uuid, instance)

    def reports(self, place: Place, uuid: str) -> bool:
        """Return whether the agent of a node has reported an instance that is there still."""
        return self._reported.get(place, uuid) is not None

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

    def tell(self, host: str, instances: Iterable[Instance], moment: float) -> None:
        """Take in that the compute service of a host has these instances, others perhaps too."""
        for instance in instances:
            for place in self._places(host):
                self._reported.undeny(place, instance.uuid)
            told = self._told.put(host, instance, moment)
            self._settle(host, instance.uuid, told)
            row = self._told_row(host, told) if told else None
            if row is not None:
                self._arrive(instance.uuid, self._place(row))

    def tell_gone(self, host: str, uuid: str, moment: float) -> None:
        """Take in that a host lost an instance, until its agent looks again and still sees it."""
        self._told.drop(host, uuid)
        self._promises.withdraw(uuid, host)
        for row in self._hosts.rows_of_host(host):
            self._claimed.drop(self._node_id(row), uuid)
            self._reported.deny(self._place(row), uuid, moment)
        self._settle(host, uuid)

    def tell_all(self, host: str, uuids: Iterable[str], moment: float) -> None:
        """Take in the uuids of all instances that a compute service has.

        What differs from what its nodes' agents and schedulers say is disputed.
        """
        listed = dict.fromkeys(uuids)
        for uuid in [each for each in self._told.on(host) if each not in listed]:
            self._told.drop(host, uuid)
            self._settle(host, uuid)
        self._told.renew(host, moment)
        seen = {uuid for place in self._places(host) for uuid in self._reported.on(place)}
        news = [uuid for uuid in listed if uuid not in seen]
        if self._places(host):
            odd = [uuid for uuid in news if not self._is_expected(host, uuid)]
            self.disputes.hear(host, odd, seen - listed.keys())
        # Where rows are in doubt they may go, and what is listed is to stay.
        more = listed if host in self.disputes.open else news
        known = self._told.on(host)
        self.tell(host, [Instance(uuid=uuid) for uuid in more if uuid not in known], moment)

    def forget_told(self) -> None:
        """Forget what all compute services told."""
        for host in self._told.hosts():
            self._forget_told(host)
        self.disputes.clear()

    def follow(self, hosts: Iterable[str]) -> None:
        """Write anew what is known of hosts whose nodes have come or gone."""
        for host in hosts:
            places = self._places(host)
            if not places:
                self._forget_told(host)
                self.disputes.forget(host)
            uuids = {uuid for place in places for uuid in self._reported.rows(place)}
            uuids |= {uuid for uuid, place in self._promises if place in places}
            for row in self._hosts.rows_of_host(host):
                uuids |= self._claimed.on(self._node_id(row)).keys()
            for uuid in uuids.union(self._told.on(host)):
                self._settle(host, uuid)

    def _forget_told(self, host: str) -> None:
        for uuid in list(self._told.on(host)):
            self._told.drop(host, uuid)
            self._settle(host, uuid)

    def _read_instances(self, changes: Changes) -> None:
        live = []
        for row in changes.instances:
            if row.deleted or released(row.vm_state, row.task_state):
                self._end((row.host, row.node), row.uuid, seconds(row.updated_at))
            else:
                self._report((row.host, row.node), row)
                live.append(row)
        places = [place for host in changes.hosts for place in self._places(host)]
        if changes.complete or places:
            # They were there when the inventory was last read.
            for place, uuid in self._reported.missing(live, None if changes.complete else places):
                self._end(place, uuid, self._read_at)
        if changes.now > datetime.min:
            self._read_at = seconds(changes.now)

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
        instance = self._reported.put(place, row)
        at = self._hosts.row_of(*place)
        if at is not None:
            self._arrive(row.uuid, place)
        if instance is None:
            return
        residents, told = self._hosts.residents, self._told.on(place[0])
        seen = self.reports(place, row.uuid)
        if at is None or row.uuid in residents.on(at) or row.uuid in told or not seen:
            self._settle(place[0], row.uuid, instance)
        else:
            # Nobody else says anything, as of most instances: there is nothing to put together.
            residents.add(at, row.uuid, instance)

    def _end(self, place: Place, uuid: str, moment: float) -> None:
        """Take in that a row ended at a moment, or later; what was told before ends with it."""
        host, node = place
        ended = self._reported.drop(place, uuid)
        told = self._told.on(host).get(uuid)
        here = told is not None and told.node in (None, node)
        if here and self._told.was_told(host, uuid) + ROUNDING < moment:
            ended |= self._told.drop(host, uuid)
        if ended:
            self._settle(host, uuid)

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
        reported = self._reported.get(place, uuid)
        if reported is not None:
            yield reported

    def _told_row(self, host: str, told: Instance) -> int | None:
        """Return the row of an instance that a compute service told of, None for an unknown host.

        A service may have several nodes. Where it does not say which, others may know.
        """
        named = self._hosts.row_of(host, told.node or "")
        if named is not None:
            return named
        rows = list(self._hosts.rows_of_host(host))
        for row in rows:
            if self._expects(row, told.uuid) or self.reports(self._place(row), told.uuid):
                return row
        return rows[0] if rows else None

    def _is_expected(self, host: str, uuid: str) -> bool:
        return any(self._expects(row, uuid) for row in self._hosts.rows_of_host(host))

    def _expects(self, row: int, uuid: str) -> bool:
        """Return whether a scheduler has sent an instance to a row."""
        claimed = uuid in self._claimed.on(self._node_id(row))
        return claimed or self._promises.get(uuid, self._place(row)) is not None

    def _places(self, host: str) -> list[Place]:
        return [self._place(row) for row in self._hosts.rows_of_host(host)]

    def _node_id(self, row: int) -> int:
        found: int = self._hosts.get(row, "node_id")
        return found

    def _place(self, row: int) -> Place:
        return self._hosts.get(row, "host"), self._hosts.get(row, "nodename")
