# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The instances that have rows in the inventory, and which of them a host said to have lost."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from scheduler.host_view.instance_facts import instance_of
from scheduler.host_view.promises import Place
from scheduler.host_view.rows import seconds
from scheduler.objects.instance import Instance

# The database's clock has whole seconds, and its time is known here to about as much.
ROUNDING = 1.0
# Such as are looked up quickly.
Uuids = AbstractSet[str] | Mapping[str, object]


class ReportedInstances:
    """Instances by (host, node).

    Moments are in seconds since 1970 on the database's clock.
    """

    def __init__(self) -> None:
        self._rows: dict[Place, dict[str, Instance]] = {}
        self._denied: dict[Place, dict[str, float]] = {}

    def get(self, place: Place, uuid: str) -> Instance | None:
        """Return an instance that is on a node."""
        if uuid in self._denied.get(place, ()):
            return None
        return self._rows.get(place, {}).get(uuid)

    def of(self, place: Place, uuids: Uuids) -> dict[str, Instance]:
        """Return {uuid: instance} of those of some instances that are on a node."""
        rows, denied = self._rows.get(place, {}), self._denied.get(place, {})
        return {uuid: rows[uuid] for uuid in in_both(uuids, rows) if uuid not in denied}

    def on(self, place: Place) -> Collection[str]:
        """Return the uuids of those that are on a node."""
        return self.rows(place) - self._denied.get(place, {}).keys()

    def rows(self, place: Place) -> set[str]:
        """Return the uuids of all that have rows there."""
        return {*self._rows.get(place, ())}

    def put(self, place: Place, row: Any) -> Instance | None:
        """Take over a live row; return its instance if that says anything new."""
        here = self._rows.setdefault(place, {})
        before, instance = here.get(row.uuid), instance_of(row)
        denied = self._denied.get(place)
        if denied and denied.get(row.uuid, float("inf")) < seconds(row.updated_at):
            self.undeny(place, {row.uuid})
            before = None
        if instance == before:
            return None
        here[row.uuid] = instance
        return instance

    def drop(self, place: Place, uuid: str) -> bool:
        """Forget a row; return whether there was one."""
        here = self._rows.get(place, {})
        if here.pop(uuid, None) is None:
            return False
        self.undeny(place, {uuid})
        if not here:
            del self._rows[place]
        return True

    def deny(self, place: Place, uuid: str, moment: float) -> None:
        """Take it that a host lost an instance at a moment, until it is seen there later."""
        if uuid in self._rows.get(place, ()):
            self._denied.setdefault(place, {})[uuid] = moment + ROUNDING

    def undeny(self, place: Place, uuids: Uuids) -> None:
        """Take back that instances were lost."""
        denied = self._denied.get(place, {})
        for uuid in in_both(uuids, denied):
            del denied[uuid]
            if not denied:
                del self._denied[place]

    def seen_again(self, place: Place, moment: float) -> list[str]:
        """Return those that were lost before a moment, when an agent looked and saw them."""
        denied = self._denied.get(place, {})
        found = dict.fromkeys(uuid for uuid, at in denied.items() if at < moment)
        self.undeny(place, found)
        return [*found]

    def missing(
        self, rows: Sequence[Any], places: Iterable[Place] | None
    ) -> Iterator[tuple[Place, str]]:
        """Yield what is not among the rows, which are all live ones: of these nodes or of all.

        The rows have been taken over.
        """
        if places is None:
            # Were there any others, they would be more.
            if sum(map(len, self._rows.values())) == len(rows):
                return
            places = list(self._rows)
        live: dict[Place, set[str]] = {}
        for row in rows:
            live.setdefault((row.host, row.node), set()).add(row.uuid)
        for place in places:
            for uuid in self.rows(place) - live.get(place, set()):
                yield place, uuid


def in_both(some: Uuids, others: Uuids) -> list[str]:
    """Return what two collections share, at the cost of the smaller one."""
    if not some or not others:
        return []
    if len(others) < len(some):
        some, others = others, some
    return [each for each in some if each in others]
