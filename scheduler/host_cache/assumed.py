# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What this process has decided: what it is about to claim, and instances that it assumes."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping
from dataclasses import dataclass

from conf.claims import LEASE
from scheduler.decision.reserved_places import give_room
from scheduler.decision.types import Decision
from scheduler.hosts.host_state import HostState, assumed_instance, usage_changes
from scheduler.hosts.table import HostTable
from scheduler.objects.instance import Instance
from scheduler.objects.request_spec import RequestSpec

# As long as a claim would last.
LIFETIME = LEASE
# (host, node)
Place = tuple[str, str]


@dataclass(frozen=True, slots=True)
class AssumedInstance:
    """Where an instance is assumed, until when, and where it was reported before."""

    place: Place
    until: float
    before: frozenset[Place]
    instance: Instance


class AssumedInstances:
    """The newest place of each instance that was decided and not reported yet, by its uuid.

    So members of a group see each other also while they are being built.
    """

    def __init__(self) -> None:
        self._assumed: dict[str, AssumedInstance] = {}

    def assume(
        self, instance: Instance, place: Place, now: float, before: Iterable[Place] = ()
    ) -> Place | None:
        """Add an instance, at a time in seconds; return the older place that this replaces.

        before are the places where it is reported already: it moves.
        """
        older = self._assumed.pop(instance.uuid, None)
        assumed = {place, older.place} if older else {place}
        before = frozenset(before) - assumed
        self._assumed[instance.uuid] = AssumedInstance(place, now + LIFETIME, before, instance)
        return older.place if older else None

    def of(self, uuids: Iterable[str]) -> Mapping[Place, Mapping[str, Instance]]:
        """Return the assumed ones of some instances by place and uuid."""
        found: dict[Place, dict[str, Instance]] = defaultdict(dict)
        for uuid in uuids:
            if assumed := self._assumed.get(uuid):
                found[assumed.place][uuid] = assumed.instance
        return found

    def confirm(self, uuid: str, place: Place) -> Place | None:
        """Remove an instance that was reported at a place; return where it was assumed, if it was.

        A report from where it was before says nothing. One from a third place confirms it, too:
        callers build on an alternate without asking again.
        """
        assumed = self._assumed.get(uuid)
        if assumed is None or place in assumed.before:
            return None
        del self._assumed[uuid]
        return assumed.place

    def uuids(self) -> KeysView[str]:
        """Return all instances that are assumed anywhere."""
        return self._assumed.keys()

    def forget(self, uuid: str, host: str) -> None:
        """Remove an instance that is assumed on any node of a host."""
        assumed = self._assumed.get(uuid)
        if assumed is not None and assumed.place[0] == host:
            del self._assumed[uuid]

    def expire(self, now: float) -> Iterator[tuple[str, Place]]:
        """Remove and yield (uuid, place) of the instances that were never reported."""
        while self._assumed:
            uuid, assumed = next(iter(self._assumed.items()))
            # The oldest is the first, as each is added at the end.
            if assumed.until > now:
                return
            del self._assumed[uuid]
            yield uuid, assumed.place

    def __iter__(self) -> Iterator[tuple[str, Place]]:
        return ((uuid, assumed.place) for uuid, assumed in self._assumed.items())


class InFlightClaims:
    """Writes what is about to be claimed into a host table, and counts it by node.

    It is locked together with the table. add_claim(row, instance) adds an instance to a row's host.
    """

    def __init__(self, hosts: HostTable, add_claim: Callable[[int, Instance], None]) -> None:
        self._hosts = hosts
        self._add_claim = add_claim
        # How many claims in flight a node has, by its id.
        self.open: Counter[int] = Counter()

    def begin(self, decision: Decision, spec: RequestSpec) -> frozenset[int]:
        """Consume what was decided, without cells and devices; return the ids of the nodes."""
        hosts, nodes = self._hosts, set[int]()
        for placement in decision.placements:
            row = hosts.row_of(placement.chosen.host, placement.chosen.nodename)
            if row is None or placement.taken is None:
                continue
            nodes.add(hosts.get(row, "node_id"))
            HostState.of(hosts, row).consume(placement.taken)
            if placement.place is not None:
                # What it takes was used already, for the place.
                give_room(hosts, row, spec)
            if uuid := placement.instance_uuid:
                chosen = placement.chosen
                self._add_claim(row, assumed_instance(spec, uuid, chosen.host, chosen.nodename))
        for placement in decision.placements if nodes else ():
            planned = placement.standby
            if planned is not None and planned.host is not None:
                row = hosts.row_of(planned.host.host, planned.host.nodename)
                if row is not None:
                    nodes.add(hosts.get(row, "node_id"))
                    hosts.add_to(row, usage_changes(*planned.more))
            for each in placement.alternates:
                alternate = hosts.row_of(each.host, each.nodename)
                if alternate is not None:
                    held = hosts.get(alternate, "held_alternates")
                    hosts.set(alternate, "held_alternates", held + 1)
        self.open.update(nodes)
        return frozenset(nodes)

    def end(self, node_ids: Iterable[int]) -> None:
        """Count one claim in flight less on each of these nodes."""
        for node_id in node_ids:
            self.open[node_id] -= 1
            if self.open[node_id] <= 0:
                del self.open[node_id]
