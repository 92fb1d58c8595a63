# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The sources that say where instances are: rows of agents, claims, and decisions without claims.

An instance is described by its row in the database, or by two sources together.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, KeysView, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, replace
from functools import lru_cache
from sys import intern
from typing import Any

from inventory import stored_documents
from scheduler.host_cache.assumed import AssumedInstances, Place
from scheduler.hosts.table import HostTable
from scheduler.objects.instance import Instance

_NAMES = tuple(field.name for field in fields(Instance))
_FLAVOR = ("instance_type_id", "flavor_name", "flavor")
_STATE = ("vm_state", "task_state", "power_state")
# What is read of a row.
COLUMNS = (
    *("uuid", "host", "node", "project_id", "vcpus", "memory_mb", "root_gb", "ephemeral_gb"),
    *("vm_state", "task_state", "os_type", "flavor_id", "flavor_name", "image_properties"),
    "deleted",
)
# Collections with a fast lookup.
Uuids = AbstractSet[str] | Mapping[str, object]
_NONE: dict[str, Instance] = {}


def in_both(some: Uuids, others: Uuids) -> list[str]:
    """Return what two collections share, at the cost of the smaller one."""
    if not some or not others:
        return []
    if len(others) < len(some):
        some, others = others, some
    return [each for each in some if each in others]


class ReportedInstances:
    """The rows of instances that agents have written, by place."""

    def __init__(self) -> None:
        self._rows: dict[Place, dict[str, Instance]] = {}

    def has(self, place: Place, uuid: str) -> bool:
        """Return whether the agent of a node reports an instance."""
        return uuid in self._rows.get(place, ())

    def of(self, place: Place, uuids: Uuids) -> dict[str, Instance]:
        """Return {uuid: instance} of those of some instances that are on a node."""
        rows = self._rows.get(place, {})
        return {uuid: rows[uuid] for uuid in in_both(uuids, rows)}

    def on(self, place: Place) -> KeysView[str]:
        """Return the uuids of the instances of a node."""
        return self._rows.get(place, _NONE).keys()

    def put(self, place: Place, row: Any) -> Instance | None:
        """Add a live row; return its instance if it has changed."""
        here, instance = self._rows.setdefault(place, {}), instance_from_row(row, place)
        if instance == here.get(row.uuid):
            return None
        here[row.uuid] = instance
        return instance

    def drop(self, place: Place, uuid: str) -> bool:
        """Remove a row; return whether there was one."""
        here = self._rows.get(place, {})
        if here.pop(uuid, None) is None:
            return False
        if not here:
            del self._rows[place]
        return True

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
            for uuid in self.on(place) - live[place]:
                yield place, uuid


class InstanceSources:
    """The sources, and what all have on a host; claimed is by node id and uuid."""

    def __init__(self, hosts: HostTable) -> None:
        self._hosts = hosts
        self.reported = ReportedInstances()
        self.claimed: dict[int, dict[str, Instance]] = {}
        self.assumed = AssumedInstances()

    def by_row(
        self, host: str, uuids: Uuids, node: str | None = None
    ) -> Iterator[tuple[int, dict[str, list[Instance]]]]:
        """Yield the rows of a host with {uuid: descriptions by all sources that have it there}.

        If node is given only its row is yielded.
        """
        rows: Iterable[int] = self._hosts.rows_of_host(host)
        if node is not None:
            row = self._hosts.row_of(host, node)
            rows = () if row is None else (row,)
        assumed = self.assumed.of(uuids)
        for row in rows:
            place, claimed = self.place(row), self.claimed_on(row)
            sources = (
                assumed.get(place, {}),
                {uuid: claimed[uuid] for uuid in in_both(uuids, claimed)},
                self.reported.of(place, uuids),
            )
            found: dict[str, list[Instance]] = {}
            for each in sources:
                for uuid, instance in each.items():
                    found.setdefault(uuid, []).append(instance)
            yield row, found

    def has_others(self, place: Place, uuids: Uuids) -> bool:
        """Return whether another source than claims may have one of some instances on a node."""
        found = self.reported.on(place), self.assumed.uuids()
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
        image_properties=_image_properties(row),
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


def _image_properties(row: Any) -> Mapping[str, str] | None:
    """Return the properties of the image of an instance, None where they are unknown."""
    if row.image_properties is None:
        return None
    return stored_documents.read(
        _properties_of,
        row.image_properties,
        f"Column image_properties of instance {row.uuid}",
        "the properties count as unknown. The service that writes the row must write an object of"
        " texts",
    )


# Many instances share an image: its text is parsed once.
@lru_cache(4096)
def _properties_of(text: str) -> Mapping[str, str]:
    found = json.loads(text)
    if not isinstance(found, dict) or not all(isinstance(v, str) for v in found.values()):
        raise ValueError("not an object of texts")
    return found
