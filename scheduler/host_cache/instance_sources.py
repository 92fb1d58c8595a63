# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The four sources that say where instances are: agents, claims, decisions and casts of Nova.

An instance is described by its row in the database, or by two sources together.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, KeysView, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, replace
from functools import lru_cache
from sys import intern
from typing import Any

from oslo_log import log

from scheduler.host_cache.assumed import AssumedInstances, Place
from scheduler.host_cache.node_rows import epoch_seconds
from scheduler.host_cache.nova_casts import CastInstances
from scheduler.hosts.table import HostTable
from scheduler.objects.instance import Instance

LOG = log.getLogger(__name__)
_NAMES = tuple(field.name for field in fields(Instance))
_FLAVOR = ("instance_type_id", "flavor_name", "flavor")
_STATE = ("vm_state", "task_state", "power_state")
# What is read of a row.
COLUMNS = (
    *("uuid", "host", "node", "project_id", "vcpus", "memory_mb", "root_gb", "ephemeral_gb"),
    *("vm_state", "task_state", "os_type", "flavor_id", "flavor_name", "image_properties"),
    *("deleted", "updated_at"),
)
# The database's clock has whole seconds, and its time is known here to about as much.
ROUNDING = 1.0
# Collections with a fast lookup.
Uuids = AbstractSet[str] | Mapping[str, object]
# What three of the sources have: {uuid: instance} of decisions, claims and agents.
Found = tuple[Mapping[str, Instance], Mapping[str, Instance], Mapping[str, Instance]]


_NONE: dict[str, Instance] = {}


def in_both(some: Uuids, others: Uuids) -> list[str]:
    """Return what two collections share, at the cost of the smaller one."""
    if not some or not others:
        return []
    if len(others) < len(some):
        some, others = others, some
    return [each for each in some if each in others]


class ReportedInstances:
    """The rows of instances that agents have written, by place.

    An instance that its host deleted since is hidden until an agent reports it again. Times are in
    seconds since 1970 on the database's clock.
    """

    def __init__(self) -> None:
        self._rows: dict[Place, dict[str, Instance]] = {}
        self._hidden: dict[Place, dict[str, float]] = {}

    def has(self, place: Place, uuid: str) -> bool:
        """Return whether the agent of a node reports an instance."""
        return uuid in self._rows.get(place, ()) and uuid not in self._hidden.get(place, ())

    def of(self, place: Place, uuids: Uuids) -> dict[str, Instance]:
        """Return {uuid: instance} of those of some instances that are on a node."""
        rows, hidden = self._rows.get(place, {}), self._hidden.get(place, {})
        return {uuid: rows[uuid] for uuid in in_both(uuids, rows) if uuid not in hidden}

    def on(self, place: Place) -> Collection[str]:
        """Return the uuids of the instances of a node."""
        return self.rows(place) - self._hidden.get(place, {}).keys()

    def rows(self, place: Place) -> KeysView[str]:
        """Return the uuids of the instances of a node, hidden ones included."""
        return self._rows.get(place, _NONE).keys()

    def put(self, place: Place, row: Any) -> Instance | None:
        """Add a live row; return its instance if it has changed."""
        here = self._rows.setdefault(place, {})
        before, instance = here.get(row.uuid), instance_from_row(row, place)
        hidden = self._hidden.get(place)
        if hidden and hidden.get(row.uuid, float("inf")) < epoch_seconds(row.updated_at):
            self.unhide(place, {row.uuid})
            before = None
        if instance == before:
            return None
        here[row.uuid] = instance
        return instance

    def drop(self, place: Place, uuid: str) -> bool:
        """Remove a row; return whether there was one."""
        here = self._rows.get(place, {})
        if here.pop(uuid, None) is None:
            return False
        self.unhide(place, {uuid})
        if not here:
            del self._rows[place]
        return True

    def hide(self, place: Place, uuid: str, time: float) -> None:
        """Hide an instance that its host deleted at a time, until it is reported later."""
        if uuid in self._rows.get(place, ()):
            self._hidden.setdefault(place, {})[uuid] = time + ROUNDING

    def unhide(self, place: Place, uuids: Uuids) -> None:
        """Show hidden instances again."""
        hidden = self._hidden.get(place, {})
        for uuid in in_both(uuids, hidden):
            del hidden[uuid]
            if not hidden:
                del self._hidden[place]

    def unhide_before(self, place: Place, time: float) -> list[str]:
        """Show the instances again that were hidden before an audit at a time; return them."""
        hidden = self._hidden.get(place, {})
        found = dict.fromkeys(uuid for uuid, at in hidden.items() if at < time)
        self.unhide(place, found)
        return [*found]

    def missing(
        self, rows: Sequence[Any], places: Iterable[Place] | None
    ) -> Iterator[tuple[Place, str]]:
        """Yield the instances of these nodes, or of all, that are not among all their live rows."""
        if places is None:
            # As the rows were added, equal numbers mean that none is missing.
            if sum(map(len, self._rows.values())) == len(rows):
                return
            places = list(self._rows)
        live: dict[Place, set[str]] = defaultdict(set)
        for row in rows:
            live[row.host, row.node].add(row.uuid)
        for place in places:
            for uuid in self.rows(place) - live[place]:
                yield place, uuid


class InstanceSources:
    """The sources, and what all have on a host; claimed is by node id and uuid."""

    def __init__(self, hosts: HostTable) -> None:
        self._hosts = hosts
        self.reported = ReportedInstances()
        self.claimed: dict[int, dict[str, Instance]] = {}
        self.assumed = AssumedInstances()
        self.casts = CastInstances()

    def by_row(
        self, host: str, uuids: Uuids, node: str | None = None
    ) -> Iterator[tuple[int, dict[str, list[Instance]]]]:
        """Yield the rows of a host with {uuid: descriptions by all sources that have it there}.

        If node is given only its row is needed, unless casts have the instances: these may be on
        any node.
        """
        casts = self.casts.on(host)
        others = self._others(host, uuids, None if in_both(uuids, casts) else node)
        cast_on: dict[int, dict[str, Instance]] = defaultdict(dict)
        for uuid, row in self._cast_rows(host, uuids, others).items():
            cast_on[row][uuid] = casts[uuid]
        for row, (assumed, claimed, reported) in others.items():
            found: dict[str, list[Instance]] = {}
            for each in (assumed, claimed, cast_on.get(row), reported):
                for uuid, instance in (each or {}).items():
                    found.setdefault(uuid, []).append(instance)
            yield row, found

    def cast_rows(self, host: str, uuids: Uuids) -> dict[str, int]:
        """Return the rows of those instances that casts have on a host."""
        return self._cast_rows(host, uuids, self._others(host, uuids))

    def expected(self, host: str, uuids: Uuids) -> set[str]:
        """Return those instances that are assumed or claimed on a host."""
        others = self._others(host, uuids).values()
        return {uuid for assumed, claimed, _ in others for uuid in (*assumed, *claimed)}

    def has_others(self, place: Place, uuids: Uuids) -> bool:
        """Return whether another source than claims may have one of some instances on a node."""
        found = self.casts.on(place[0]), self.reported.rows(place), self.assumed.uuids()
        return any(in_both(uuids, each) for each in found)

    def places(self, host: str) -> list[Place]:
        """Return the places of all nodes of a host."""
        return [self.place(row) for row in self._hosts.rows_of_host(host)]

    def place(self, row: int) -> Place:
        """Return the place of a row."""
        return self._hosts.get(row, "host"), self._hosts.get(row, "nodename")

    def claimed_on(self, row: int) -> dict[str, Instance]:
        """Return the claimed instances of a row."""
        return self.claimed.get(self._hosts.get(row, "node_id"), {})

    def _others(self, host: str, uuids: Uuids, node: str | None = None) -> dict[int, Found]:
        """Return by row what all sources but casts have: of one node or of all."""
        rows: Iterable[int] = self._hosts.rows_of_host(host)
        if node is not None:
            row = self._hosts.row_of(host, node)
            rows = () if row is None else (row,)
        all_assumed = self.assumed.of(uuids)
        found: dict[int, Found] = {}
        for row in rows:
            place, claimed = self.place(row), self.claimed_on(row)
            found[row] = (
                all_assumed.get(place, {}),
                {uuid: claimed[uuid] for uuid in in_both(uuids, claimed)},
                self.reported.of(place, uuids),
            )
        return found

    def _cast_rows(self, host: str, uuids: Uuids, others: dict[int, Found]) -> dict[str, int]:
        """Return the rows of instances that casts have on a host.

        If a cast names no node, other sources may; else the first row is as good as any.
        """
        casts = self.casts.on(host)
        known = in_both(uuids, casts)
        if not known or not others:
            return {}
        found = dict.fromkeys(known, next(iter(others)))
        for row in reversed(others):
            for each in others[row]:
                found.update(dict.fromkeys(in_both(each, found), row))
        for uuid in found:
            named = self._hosts.row_of(host, casts[uuid].node or "")
            if named is not None:
                found[uuid] = named
        return found


def instance_from_row(row: Any, place: Place) -> Instance:
    """Return the instance on a node that a row of the database describes."""
    return Instance(
        uuid=row.uuid,
        host=_shared(place[0]),
        node=_shared(place[1]),
        project_id=_shared(row.project_id),
        vcpus=row.vcpus,
        memory_mb=row.memory_mb,
        root_gb=row.root_gb,
        ephemeral_gb=row.ephemeral_gb,
        vm_state=_shared(row.vm_state),
        task_state=_shared(row.task_state),
        os_type=_shared(row.os_type),
        instance_type_id=row.flavor_id,
        flavor_name=_shared(row.flavor_name),
        image_properties=_image_properties(row.image_properties),
    )


def merge(known: Instance, newer: Instance) -> Instance:
    """Return an instance with the facts of newer, and those of known that newer lacks.

    Facts of the flavor are not mixed if the two have different ones, nor are those of the state:
    an instance without a task has none.
    """
    lacking = {name for name in _NAMES if getattr(newer, name) is None}
    if _other_flavor(known, newer):
        lacking -= set(_FLAVOR)
    if newer.vm_state is not None:
        lacking -= set(_STATE)
    return replace(newer, **{name: getattr(known, name) for name in lacking})


def _other_flavor(known: Instance, newer: Instance) -> bool:
    """Return whether two descriptions of an instance name different flavors."""
    pairs = [(getattr(known, name), getattr(newer, name)) for name in _FLAVOR[:2]]
    return any(None not in pair and pair[0] != pair[1] for pair in pairs)


def _shared(text: str | None) -> str | None:
    """Return a text that all instances with it share in memory."""
    return intern(text) if text else text


# Many instances share an image: its text is parsed once, and warned of once.
@lru_cache(4096)
def _image_properties(text: str | None) -> Mapping[str, str] | None:
    if text is None:
        return None
    try:
        found = json.loads(text)
        if not isinstance(found, dict) or not all(isinstance(v, str) for v in found.values()):
            raise ValueError("not an object of texts")
    # One unreadable row must not keep all other instances from being read.
    except (ValueError, RecursionError) as error:
        LOG.warning("Image properties of an instance are unreadable and ignored: %s", error)
        return None
    return found
