# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Track which instances are on which hosts, from all sources together.

An instance is where a row of an agent, a claim or a decision of this process has it. Of its
description the newest facts count, and older ones where these say nothing.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import reduce
from typing import Any

from inventory.claims.types import ALTERNATE, NodeChange
from inventory.instance_states import released
from scheduler.host_cache.assumed import Place
from scheduler.host_cache.instance_sources import InstanceSources, in_both, instance_from_row, merge
from scheduler.host_cache.refresh_queries import Delta
from scheduler.hosts.table import HostTable
from scheduler.objects.instance import Instance


class InstanceTracker:
    """Writes the instances of a host table, locked together with it; times are in seconds."""

    def __init__(self, hosts: HostTable) -> None:
        self._hosts = hosts
        self._sources = InstanceSources(hosts)
        self._reported = self._sources.reported
        self._claimed = self._sources.claimed
        self._assumed = self._sources.assumed
        self.reports = self._reported.has

    def read(self, delta: Delta, now: float) -> None:
        """Apply rows of the database, and forget what was assumed for too long at this time."""
        self._read_instances(delta)
        self._read_claims(delta)
        self._write_each((host, uuid) for uuid, (host, _) in self._assumed.expire(now))

    def node_ids(self, hosts: Iterable[str]) -> set[int]:
        """Return the ids of the nodes of some hosts."""
        rows = (row for host in hosts for row in self._hosts.rows_of_host(host))
        return {self._hosts.get(row, "node_id") for row in rows}

    def add_claim(self, row: int, instance: Instance) -> None:
        """Add a claimed instance to a row until the claims there are read."""
        node_id = self._hosts.get(row, "node_id")
        self._claimed.setdefault(node_id, {})[instance.uuid] = instance
        self._write_claims(self._sources.place(row), {instance.uuid: instance})

    def apply_changes(self, changes: Iterable[tuple[int, NodeChange]]) -> None:
        """Apply what claims have changed of the nodes in some rows, one after the other."""
        alternates = {}
        for row, change in changes:
            place = self._sources.place(row)
            here = self._claimed.setdefault(change.node_id, {})
            changed: dict[str, Instance | None] = dict.fromkeys(change.ended)
            for uuid in changed:
                here.pop(uuid, None)
            added = {each.uuid: instance_from_row(each, place) for each in change.added}
            here.update(added)
            changed.update(added)
            if self._sources.has_others(place, changed):
                self._write_claims(place, changed)
            else:
                self._hosts.instances.change(row, added, change.ended)
            alternates[row] = _alternates(here)
            if not here:
                del self._claimed[change.node_id]
        self._hosts.write([*alternates], "held_alternates", alternates.values())

    def assume(self, row: int, uuid: str, known: Instance | None, now: float) -> None:
        """Assume an instance on a row that a decision wrote it into, over the known description."""
        index = self._hosts.instances
        instance = index.on(row)[uuid]
        if known is not None:
            instance = merge(known, instance)
            index.add(row, uuid, instance)
        before = [self._sources.place(each) for each in index.rows_of(uuid)]
        older = self._assumed.assume(instance, self._sources.place(row), now, before)
        if older is not None:
            self._write(older[0], {uuid: None}, older[1])

    def forget(self, host: str, uuid: str) -> None:
        """Assume an instance, which its host has deleted, on that host no longer."""
        self._assumed.forget(uuid, host)
        self._write(host, {uuid: None})

    def agrees(self, host: str, listed: AbstractSet[str]) -> bool:
        """Return whether a list of a host has all that its agent reports, and nothing unknown.

        What was only claimed or decided for the host may not have come there yet.
        """
        rows = self._hosts.rows_of_host(host)
        known = {uuid for row in rows for uuid in self._hosts.instances.on(row)}
        places = self._sources.places(host)
        return listed <= known and all(self._reported.on(each) <= listed for each in places)

    def rewrite(self, hosts: Collection[str]) -> None:
        """Write all instances of hosts whose nodes were added or removed."""
        if not hosts:
            return
        assumed: dict[str, list[str]] = defaultdict(list)
        for uuid, (host, _) in self._assumed:
            assumed[host].append(uuid)
        for host in hosts:
            places = self._sources.places(host)
            uuids = {uuid for place in places for uuid in self._reported.on(place)}
            uuids.update(assumed.get(host, ()))
            for row in self._hosts.rows_of_host(host):
                uuids |= self._sources.claimed_on(row).keys()
            self._write(host, dict.fromkeys(uuids))

    def _read_instances(self, delta: Delta) -> None:
        live, ended = [], []
        unshared: dict[int, dict[str, Instance]] = defaultdict(dict)
        for row in delta.instances:
            if row.deleted or released(row.vm_state, row.task_state):
                if self._reported.drop((row.host, row.node), row.uuid):
                    ended.append((row.host, row.uuid))
            else:
                self._report((row.host, row.node), row, unshared)
                live.append(row)
        for at, instances in unshared.items():
            self._hosts.instances.change(at, instances)
        places = [place for host in delta.hosts for place in self._sources.places(host)]
        if delta.complete or places:
            for place, uuid in self._reported.missing(live, None if delta.complete else places):
                self._reported.drop(place, uuid)
                ended.append((place[0], uuid))
        self._write_each(ended)

    def _read_claims(self, delta: Delta) -> None:
        """Replace the claims and the held alternates of nodes whose rows were read."""
        claimed: dict[int, dict[str, Instance]] = defaultdict(dict)
        for row in delta.claims:
            instance = instance_from_row(row, (row.host, row.node))
            claimed[row.compute_node_id][row.uuid] = instance
        alternates = {}
        for node in delta.nodes:
            place = (node.host, node.hypervisor_hostname)
            before = self._claimed.pop(node.id, {})
            if found := {} if node.deleted else claimed.get(node.id, {}):
                self._claimed[node.id] = found
            both = dict.fromkeys((*before, *found))
            changed = [uuid for uuid in both if before.get(uuid) != found.get(uuid)]
            self._write_claims(place, {uuid: found.get(uuid) for uuid in changed})
            at = self._hosts.row_of(*place)
            if at is not None:
                alternates[at] = _alternates(claimed.get(node.id, {}))
        if alternates:
            self._hosts.write([*alternates], "held_alternates", alternates.values())
        if delta.complete:
            for node_id in self._claimed.keys() - set(self._hosts.node_id.tolist()):
                del self._claimed[node_id]

    def _write_claims(self, place: Place, claimed: Mapping[str, Instance | None]) -> None:
        """Write claims that were made, and those that have ended as None."""
        # The claim of a reported instance describes it no more.
        newest = {u: None if self.reports(place, u) else each for u, each in claimed.items()}
        self._write(place[0], newest, place[1])

    def _report(self, place: Place, row: Any, unshared: dict[int, dict[str, Instance]]) -> None:
        """Add a live row; instances that no other source has are left in unshared, by row."""
        instance = self._reported.put(place, row)
        at = self._hosts.row_of(*place)
        if at is None:
            return
        self._confirm(row.uuid, place)
        if instance is None:
            return
        if row.uuid in self._hosts.instances.on(at):
            self._write(place[0], {row.uuid: instance}, place[1])
        else:
            unshared[at][row.uuid] = instance

    def _confirm(self, uuid: str, place: Place) -> None:
        """Confirm an assumed instance on a node; remove it from where else it was assumed."""
        assumed = self._assumed.confirm(uuid, place)
        if assumed is not None and assumed != place:
            self._write(assumed[0], {uuid: None}, assumed[1])

    def _write_each(self, instances: Iterable[tuple[str, str]]) -> None:
        """Write the instances of many hosts, given as (host, uuid)."""
        by_host: dict[str, dict[str, None]] = defaultdict(dict)
        for host, uuid in instances:
            by_host[host][uuid] = None
        for host, uuids in by_host.items():
            self._write(host, uuids)

    def _write(
        self, host: str, newest: Mapping[str, Instance | None], node: str | None = None
    ) -> None:
        """Write into the nodes of a host what all sources have of instances.

        newest has the newest description of each, if there is one, by its node if that is given.
        """
        if not newest:
            return
        index = self._hosts.instances
        for row, found in self._sources.by_row(host, newest, node):
            here = index.on(row)
            gone = [uuid for uuid in in_both(newest, here) if uuid not in found]
            place = self._sources.place(row)
            merged = {
                uuid: _merge_all(place, here.get(uuid), each, newest[uuid])
                for uuid, each in found.items()
            }
            new = {uuid: each for uuid, each in merged.items() if here.get(uuid) is not each}
            if new or gone:
                index.change(row, new, gone)


def _alternates(claimed: Mapping[str, Instance]) -> int:
    return [each.task_state for each in claimed.values()].count(ALTERNATE)


def _merge_all(
    place: Place, known: Instance | None, found: list[Instance], newest: Instance | None
) -> Instance:
    """Return the description of an instance on a node, with the newest facts."""
    if known is not None:
        found = [known, *(each for each in found if each is newest)]
    merged = reduce(merge, found)
    if (merged.host, merged.node) != place:
        merged = replace(merged, host=place[0], node=place[1])
    return merged
