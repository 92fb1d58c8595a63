# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Where instances were sent that no agent has reported yet."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

# Longer than a slow build takes.
KEPT = 900.0


Place = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Promise:
    """Where an instance was sent, until when it is waited for, and where it was already."""

    place: Place
    until: float
    before: frozenset[Place]


class Promises:
    """The newest place of each instance, for a while: {uuid: (host, node)}.

    Members of a group must see each other also while they are being built.
    """

    def __init__(self) -> None:
        self._promises: dict[str, Promise] = {}

    def add(
        self, uuid: str, place: Place, now: float, before: Iterable[Place] = ()
    ) -> Place | None:
        """Remember a place, at a moment in seconds; return the older one that it replaces.

        before are the places where the instance was reported already: it moves.
        """
        older = self._promises.pop(uuid, None)
        promised = {place, older.place} if older else {place}
        self._promises[uuid] = Promise(place, now + KEPT, frozenset(before) - promised)
        return older.place if older else None

    def kept(self, uuid: str, place: Place) -> bool:
        """Forget an instance that an agent has reported; return whether it was promised.

        A report from where it was before says nothing. One from a third place ends the promise as
        well: callers build on an alternate without asking again.
        """
        promise = self._promises.get(uuid)
        if promise is None or place in promise.before:
            return False
        del self._promises[uuid]
        return True

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
