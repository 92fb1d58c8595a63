# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Which instances are on which hosts, put together from everyone who says so.

An instance is where an agent's row has it, where a scheduler has claimed room for it, where a
decision has sent it, and where the compute service of the host told that it is. Of what is known
about it the newest holds, and what was known before where that says nothing.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import reduce
from typing import Any

from inventory.instance_states import released
from inventory.orders import ALTERNATE
from scheduler.decision.host_table import HostTable
from scheduler.host_view.changes import Changes
from scheduler.host_view.disputes import Disputes
from scheduler.host_view.instance_facts import instance_of, merged
from scheduler.host_view.promises import Place
from scheduler.host_view.reported import ROUNDING, Uuids, in_both
from scheduler.host_view.rows import seconds, written
from scheduler.host_view.sources import Sources
from scheduler.objects.instance import Instance


class Whereabouts:
    """Keeps the residents of a table. Not locked: its owner locks it together with the table.

    Moments are in seconds since 1970 on the database's clock.
    """

    def __init__(self, hosts: HostTable) -> None:
        self._hosts = hosts
        self._sources = Sources(hosts)
        self._reported = self._sources.reported
        self._claimed = self._sources.claimed
        self._promises = self._sources.promises
        self._told = self._sources.told
        self.reports = self._sources.reports
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
            seen = self._reported.seen_again(place, written(node))
            self._settle(node.host, dict.fromkeys(seen))
        self._read_claims(changes)
        self._settle_each((host, uuid) for uuid, (host, _) in self._promises.expired(now))
        if changes.complete:
            self._settle_each(self._told.expired(seconds(changes.now)))

    def nodes_of(self, hosts: Iterable[str]) -> set[int]:
        """Return the ids of the nodes of some hosts."""
        rows = (row for host in hosts for row in self._hosts.rows_of_host(host))
        return {self._sources.node_id(row) for row in rows}

    def claim(self, row: int, instance: Instance) -> None:
        """Take it that a claim for an instance is on a row, until the claims there are read."""
        self._claimed.put(self._sources.node_id(row), instance)
        self._settle_claim(self._sources.place(row), instance.uuid, instance)

    def promise(self, row: int, uuid: str, known: Instance | None, now: float) -> None:
        """Remember that a decision sent an instance to a row, which it was written into already.

        known is what the row had in its place before.
        """
        residents = self._hosts.residents
        sent = residents.on(row)[uuid]
        if known is not None:
            sent = merged(known, sent)
            residents.add(row, uuid, sent)
        before = [self._sources.place(each) for each in residents.rows_of(uuid)]
        older = self._promises.add(sent, self._sources.place(row), now, before)
        if older is not None:
            self._settle(older[0], {uuid: None}, older[1])

    def tell(self, host: str, instances: Iterable[Instance], moment: float) -> None:
        """Take in that the compute service of a host has these instances, others perhaps too."""
        kept = self._keep(host, {each.uuid: each for each in instances}, moment)
        self._settle(host, kept)
        self._arrive_told(host, kept)

    def tell_gone(self, host: str, uuid: str, moment: float) -> None:
        """Take in that a host lost an instance, until its agent looks again and still sees it."""
        self._told.drop(host, uuid)
        self._promises.withdraw(uuid, host)
        for row in self._hosts.rows_of_host(host):
            self._claimed.drop(self._sources.node_id(row), uuid)
            self._reported.deny(self._sources.place(row), uuid, moment)
        self._settle(host, {uuid: None})

    def tell_all(self, host: str, uuids: Iterable[str], moment: float) -> None:
        """Take in the uuids of all instances that a compute service has.

        What differs from what its nodes' agents and schedulers say is disputed.
        """
        listed = dict.fromkeys(uuids)
        self._drop_told(host, [uuid for uuid in self._told.on(host) if uuid not in listed])
        self._told.renew(host, moment)
        places = self._sources.places(host)
        seen = {uuid for place in places for uuid in self._reported.on(place)}
        news = {uuid for uuid in listed if uuid not in seen}
        if places:
            odd = news - self._sources.expected(host, news)
            self.disputes.hear(host, odd, seen - listed.keys())
        # Where rows are in doubt they may go, and what is listed is to stay.
        more = listed if host in self.disputes.open else [uuid for uuid in listed if uuid in news]
        known = self._told.on(host)
        told = {uuid: Instance(uuid, host) for uuid in more if uuid not in known}
        # A uuid says less than whatever is known of the instance.
        self._settle(host, dict.fromkeys(self._keep(host, told, moment)))
        self._arrive_told(host, told)

    def forget_told(self) -> None:
        """Forget what all compute services told."""
        for host in self._told.hosts():
            self._forget_told(host)
        self.disputes.clear()

    def follow(self, hosts: Iterable[str]) -> None:
        """Write anew what is known of hosts whose nodes have come or gone."""
        promised: dict[str, list[str]] = defaultdict(list)
        for uuid, (host, _) in self._promises:
            promised[host].append(uuid)
        for host in hosts:
            places = self._sources.places(host)
            if not places:
                self._forget_told(host)
                self.disputes.forget(host)
            uuids = {uuid for place in places for uuid in self._reported.rows(place)}
            uuids.update(promised.get(host, ()))
            for row in self._hosts.rows_of_host(host):
                uuids |= self._claimed.on(self._sources.node_id(row)).keys()
            self._settle(host, dict.fromkeys(uuids.union(self._told.on(host))))

    def _keep(
        self, host: str, told: Mapping[str, Instance], moment: float
    ) -> dict[str, Instance | None]:
        """Remember what a compute service told; return it as it is remembered, None if it is not.

        Of two instances of the same uuid the last counts.
        """
        for place in self._sources.places(host):
            self._reported.undeny(place, told)
        return {uuid: self._told.put(host, each, moment) for uuid, each in told.items()}

    def _forget_told(self, host: str) -> None:
        self._drop_told(host, list(self._told.on(host)))

    def _drop_told(self, host: str, uuids: Iterable[str]) -> None:
        gone = [uuid for uuid in uuids if self._told.drop(host, uuid)]
        self._settle(host, dict.fromkeys(gone))

    def _read_instances(self, changes: Changes) -> None:
        live, ended = [], []
        plain: dict[int, dict[str, Instance]] = defaultdict(dict)
        for row in changes.instances:
            if row.deleted or released(row.vm_state, row.task_state):
                if self._end((row.host, row.node), row.uuid, seconds(row.updated_at)):
                    ended.append((row.host, row.uuid))
            else:
                self._report((row.host, row.node), row, plain)
                live.append(row)
        for at, instances in plain.items():
            self._hosts.residents.change(at, instances)
        places = [place for host in changes.hosts for place in self._sources.places(host)]
        if changes.complete or places:
            # They were there when the inventory was last read.
            for place, uuid in self._reported.missing(live, None if changes.complete else places):
                self._end(place, uuid, self._read_at)
                ended.append((place[0], uuid))
        self._settle_each(ended)
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
        self._write_alternates(changes.nodes, claimed)
        if changes.complete:
            self._claimed.keep(set(self._hosts.node_id.tolist()))

    def _write_alternates(
        self, nodes: Iterable[Any], claimed: Mapping[int, Mapping[str, Instance]]
    ) -> None:
        """Write for how many alternates something is claimed on nodes whose rows were read."""
        counts = {}
        for node in nodes:
            row = self._hosts.row_of(node.host, node.hypervisor_hostname)
            if row is not None:
                here = claimed.get(node.id, {}).values()
                counts[row] = sum(each.task_state == ALTERNATE for each in here)
        self._hosts.write([*counts], "held_alternates", counts.values())

    def _settle_claim(self, place: Place, uuid: str, claimed: Instance | None) -> None:
        # An instance that is seen is no longer what it was to be.
        self._settle(place[0], {uuid: None if self.reports(place, uuid) else claimed}, place[1])

    def _report(self, place: Place, row: Any, plain: dict[int, dict[str, Instance]]) -> None:
        """Take over a live row; what nobody else says anything about is left in plain, by row."""
        uuid = row.uuid
        instance = self._reported.put(place, row)
        at = self._hosts.row_of(*place)
        if at is not None:
            self._arrive({uuid: place})
        if instance is None:
            return
        host = place[0]
        told = uuid in self._told.on(host) or not self.reports(place, uuid)
        if at is None or told or uuid in self._hosts.residents.on(at):
            self._settle(host, {uuid: instance}, place[1])
        else:
            plain[at][uuid] = instance

    def _end(self, place: Place, uuid: str, moment: float) -> bool:
        """Take in that a row ended at a moment, or later; what was told before ends with it.

        Returns whether anything ended, which is to be settled.
        """
        host, node = place
        ended = self._reported.drop(place, uuid)
        told = self._told.on(host).get(uuid)
        here = told is not None and told.node in (None, node)
        if here and self._told.was_told(host, uuid) + ROUNDING < moment:
            ended |= self._told.drop(host, uuid)
        return ended

    def _arrive_told(self, host: str, told: Uuids) -> None:
        rows = self._sources.told_rows(host, told)
        self._arrive({uuid: self._sources.place(row) for uuid, row in rows.items()})

    def _arrive(self, places: Mapping[str, Place]) -> None:
        """Take it that instances are on nodes, and no longer where else they were sent to."""
        for uuid, place in places.items():
            sent = self._promises.kept(uuid, place)
            if sent is not None and sent != place:
                self._settle(sent[0], {uuid: None}, sent[1])

    def _settle_each(self, places: Iterable[tuple[str, str]]) -> None:
        """Settle the instances of many hosts, given as (host, uuid)."""
        by_host: dict[str, dict[str, None]] = defaultdict(dict)
        for host, uuid in places:
            by_host[host][uuid] = None
        for host, uuids in by_host.items():
            self._settle(host, uuids)

    def _settle(
        self, host: str, news: Mapping[str, Instance | None], node: str | None = None
    ) -> None:
        """Write into the nodes of a host what all sources together say about instances.

        news has what one of the sources has just said of each, of a node if that is known.
        """
        if not news:
            return
        residents = self._hosts.residents
        for row, said in self._sources.of(host, news, node):
            here = residents.on(row)
            gone = [uuid for uuid in in_both(news, here) if uuid not in said]
            if not said and not gone:
                continue
            place = self._sources.place(row)
            found = {
                uuid: _put_together(place, here.get(uuid), each, news[uuid])
                for uuid, each in said.items()
            }
            new = {uuid: each for uuid, each in found.items() if here.get(uuid) is not each}
            if new or gone:
                residents.change(row, new, gone)


def _put_together(
    place: Place, known: Instance | None, said: list[Instance], newest: Instance | None
) -> Instance:
    """Return what is known of an instance on a node, with what has just been said of it."""
    if known is not None:
        said = [known, *(each for each in said if each is newest)]
    found = reduce(merged, said)
    if (found.host, found.node) != place:
        found = replace(found, host=place[0], node=place[1])
    return found
