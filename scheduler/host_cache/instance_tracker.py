# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Track which instances are on which hosts, from all sources together.

An instance is where a row of an agent, a claim, a decision of this process or a cast of Nova has
it. Of its description the newest facts count, and older ones where these say nothing.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import reduce
from typing import Any

from inventory.claims.types import ALTERNATE, NodeChange
from inventory.instance_states import released
from scheduler.host_cache.assumed import Place
from scheduler.host_cache.instance_sources import (
    ROUNDING,
    InstanceSources,
    in_both,
    instance_from_row,
    merge,
)
from scheduler.host_cache.node_rows import epoch_seconds, written_at
from scheduler.host_cache.nova_casts import SyncMismatches
from scheduler.host_cache.refresh_queries import Delta
from scheduler.hosts.table import HostTable
from scheduler.objects.instance import Instance


class InstanceTracker:
    """Writes the instances of a host table, locked together with it.

    Times are in seconds since 1970 on the database's clock.
    """

    def __init__(self, hosts: HostTable) -> None:
        self._hosts = hosts
        self._sources = InstanceSources(hosts)
        self._reported = self._sources.reported
        self._claimed = self._sources.claimed
        self._assumed = self._sources.assumed
        self._casts = self._sources.casts
        self.reports = self._reported.has
        self.mismatches = SyncMismatches()
        # When the database was last read.
        self._read_at = float("-inf")

    def read(self, delta: Delta, now: float) -> None:
        """Apply rows of the database; expire assumed instances (now is their time) and casts."""
        self._read_instances(delta)
        for node in delta.nodes:
            place = (node.host, node.hypervisor_hostname)
            shown = self._reported.unhide_before(place, written_at(node))
            self._write(node.host, dict.fromkeys(shown))
        self._read_claims(delta)
        self._write_each((host, uuid) for uuid, (host, _) in self._assumed.expire(now))
        if delta.complete:
            self._write_each(self._casts.expire(epoch_seconds(delta.now)))

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
        residents = self._hosts.instances
        instance = residents.on(row)[uuid]
        if known is not None:
            instance = merge(known, instance)
            residents.add(row, uuid, instance)
        before = [self._sources.place(each) for each in residents.rows_of(uuid)]
        older = self._assumed.assume(instance, self._sources.place(row), now, before)
        if older is not None:
            self._write(older[0], {uuid: None}, older[1])

    def add_casts(self, host: str, instances: Iterable[Instance], time: float) -> None:
        """Add instances that the compute service of a host announced."""
        kept = self._keep_casts(host, {each.uuid: each for each in instances}, time)
        self._write(host, kept)
        self._confirm_casts(host, kept)

    def delete_instance(self, host: str, uuid: str, time: float) -> None:
        """Remove an instance that a host deleted, until an agent reports it later."""
        self._casts.drop(host, uuid)
        self._assumed.forget(uuid, host)
        for row in self._hosts.rows_of_host(host):
            self._sources.claimed_on(row).pop(uuid, None)
            self._reported.hide(self._sources.place(row), uuid, time)
        self._write(host, {uuid: None})

    def sync_casts(self, host: str, uuids: Iterable[str], time: float) -> None:
        """Replace the casts of a host by its list of all instances; compare it to other sources."""
        listed = dict.fromkeys(uuids)
        self._drop_casts(host, [uuid for uuid in self._casts.on(host) if uuid not in listed])
        self._casts.renew(host, time)
        places = self._sources.places(host)
        reported = {uuid for place in places for uuid in self._reported.on(place)}
        unreported = {uuid for uuid in listed if uuid not in reported}
        if places:
            unexpected = unreported - self._sources.expected(host, unreported)
            self.mismatches.compare(host, unexpected, reported - listed.keys())
        # The rows of a host to be read again may go, and what is listed has to stay.
        stay = listed if host in self.mismatches.unread else unreported
        known = self._casts.on(host)
        new = {uuid: Instance(uuid, host) for uuid in listed if uuid in stay and uuid not in known}
        # Any other description says more than a uuid.
        self._write(host, dict.fromkeys(self._keep_casts(host, new, time)))
        self._confirm_casts(host, new)

    def forget_casts(self) -> None:
        """Forget what all compute services announced."""
        for host in self._casts.hosts():
            self._drop_casts(host, list(self._casts.on(host)))
        self.mismatches = SyncMismatches()

    def rewrite(self, hosts: Collection[str]) -> None:
        """Write all instances of hosts whose nodes were added or removed."""
        if not hosts:
            return
        assumed: dict[str, list[str]] = defaultdict(list)
        for uuid, (host, _) in self._assumed:
            assumed[host].append(uuid)
        for host in hosts:
            places = self._sources.places(host)
            if not places:
                self._drop_casts(host, list(self._casts.on(host)))
                self.mismatches.forget(host)
            uuids = {uuid for place in places for uuid in self._reported.rows(place)}
            uuids.update(assumed.get(host, ()))
            for row in self._hosts.rows_of_host(host):
                uuids |= self._sources.claimed_on(row).keys()
            self._write(host, dict.fromkeys(uuids.union(self._casts.on(host))))

    def _keep_casts(
        self, host: str, instances: Mapping[str, Instance], time: float
    ) -> dict[str, Instance | None]:
        """Keep what a compute service announced; return it as it is kept, None if it is not."""
        for place in self._sources.places(host):
            self._reported.unhide(place, instances)
        return {uuid: self._casts.put(host, each, time) for uuid, each in instances.items()}

    def _drop_casts(self, host: str, uuids: Iterable[str]) -> None:
        dropped = [uuid for uuid in uuids if self._casts.drop(host, uuid)]
        self._write(host, dict.fromkeys(dropped))

    def _read_instances(self, delta: Delta) -> None:
        live, ended = [], []
        unshared: dict[int, dict[str, Instance]] = defaultdict(dict)
        for row in delta.instances:
            if row.deleted or released(row.vm_state, row.task_state):
                if self._end((row.host, row.node), row.uuid, epoch_seconds(row.updated_at)):
                    ended.append((row.host, row.uuid))
            else:
                self._report((row.host, row.node), row, unshared)
                live.append(row)
        for at, instances in unshared.items():
            self._hosts.instances.change(at, instances)
        places = [place for host in delta.hosts for place in self._sources.places(host)]
        if delta.complete or places:
            # They were there when the database was last read.
            for place, uuid in self._reported.missing(live, None if delta.complete else places):
                self._end(place, uuid, self._read_at)
                ended.append((place[0], uuid))
        self._write_each(ended)
        if delta.now > datetime.min:
            self._read_at = epoch_seconds(delta.now)

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
        uuid, host = row.uuid, place[0]
        instance = self._reported.put(place, row)
        at = self._hosts.row_of(*place)
        if at is not None:
            self._confirm(uuid, place)
        if instance is None:
            return
        shared = uuid in self._casts.on(host) or not self.reports(place, uuid)
        if at is None or shared or uuid in self._hosts.instances.on(at):
            self._write(host, {uuid: instance}, place[1])
        else:
            unshared[at][uuid] = instance

    def _end(self, place: Place, uuid: str, time: float) -> bool:
        """Remove a row that ended, and casts before; return whether this is still to be written."""
        host, node = place
        ended = self._reported.drop(place, uuid)
        cast = self._casts.on(host).get(uuid)
        here = cast is not None and cast.node in (None, node)
        if here and self._casts.announced_at(host, uuid) + ROUNDING < time:
            ended |= self._casts.drop(host, uuid)
        return ended

    def _confirm_casts(self, host: str, instances: Mapping[str, object]) -> None:
        for uuid, row in self._sources.cast_rows(host, instances).items():
            self._confirm(uuid, self._sources.place(row))

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
        residents = self._hosts.instances
        for row, found in self._sources.by_row(host, newest, node):
            here = residents.on(row)
            gone = [uuid for uuid in in_both(newest, here) if uuid not in found]
            place = self._sources.place(row)
            merged = {
                uuid: _merge_all(place, here.get(uuid), each, newest[uuid])
                for uuid, each in found.items()
            }
            new = {uuid: each for uuid, each in merged.items() if here.get(uuid) is not each}
            if new or gone:
                residents.change(row, new, gone)


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
