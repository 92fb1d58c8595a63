# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Where instances were sent that no agent has reported yet."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from scheduler.objects.instance import Instance

# Longer than a slow build takes.
KEPT = 900.0


Place = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Promise:
    """Where an instance was sent, until when it is waited for, and where it was already."""

    place: Place
    until: float
    before: frozenset[Place]
    instance: Instance


class Promises:
    """The newest place of each instance, for a while: {uuid: (host, node)}.

    Members of a group must see each other also while they are being built.
    """

    def __init__(self) -> None:
        self._promises: dict[str, Promise] = {}

    def add(
        self, instance: Instance, place: Place, now: float, before: Iterable[Place] = ()
    ) -> Place | None:
        """Remember a place, at a moment in seconds; return the older one that it replaces.

        before are the places where the instance was reported already: it moves.
        """
        older = self._promises.pop(instance.uuid, None)
        promised = {place, older.place} if older else {place}
        before = frozenset(before) - promised
        self._promises[instance.uuid] = Promise(place, now + KEPT, before, instance)
        return older.place if older else None

    def of(self, uuids: Iterable[str]) -> Mapping[Place, Mapping[str, Instance]]:
        """Return what is known of those instances that were promised, by place and uuid."""
        found: dict[Place, dict[str, Instance]] = defaultdict(dict)
        for uuid in uuids:
            promise = self._promises.get(uuid)
            if promise is not None:
                found[promise.place][uuid] = promise.instance
        return found

    def kept(self, uuid: str, place: Place) -> Place | None:
        """Forget an instance that was reported; return where it was promised to, if it was.

        A report from where it was before says nothing. One from a third place ends the promise as
        well: callers build on an alternate without asking again.
        """
        promise = self._promises.get(uuid)
        if promise is None or place in promise.before:
            return None
        del self._promises[uuid]
        return promise.place

    def withdraw(self, uuid: str, host: str) -> None:
        """Forget an instance that is no longer to come to any node of a host."""
        promise = self._promises.get(uuid)
        if promise is not None and promise.place[0] == host:
            del self._promises[uuid]

    def expired(self, now: float) -> Iterator[tuple[str, Place]]:
        """Forget and yield (uuid, place) of the instances that never arrived."""
        while self._promises:
            uuid, promise = next(iter(self._promises.items()))
            # They are in the order in which they were added, which is that of their ends.
            if promise.until > now:
                return
            del self._promises[uuid]
            yield uuid, promise.place

    def __iter__(self) -> Iterator[tuple[str, Place]]:
        return ((uuid, promise.place) for uuid, promise in self._promises.items())
