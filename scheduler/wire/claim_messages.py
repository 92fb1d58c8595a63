# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Encode and decode what claims have changed of nodes, which schedulers push to each other.

A message is another argument of the method that push_messages is for, with one list for each
column. Schedulers of the release before do not know this argument. They take the message for one of
an agent that knows no claims, drop it, and read the changes with their next refresh.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from inventory.claims.numa_pci_usage import NUMA, PCI
from inventory.claims.types import ALTERNATE, AddedClaim, NodeChange
from inventory.objects.field_types import (
    COUNT,
    INT64,
    INTEGER,
    NAME,
    TRUTH,
    UUID,
    FieldType,
    Malformed,
    between,
    list_of,
    mapping_of,
    or_none,
    read_under,
    typed,
)
from scheduler.wire.arguments import refusing_malformed
from scheduler.wire.push_messages import DOCUMENT, MOST_INSTANCES, MOST_NODES

# The name of the argument.
CHANGES = "changes"


def _columns(kinds: Mapping[str, FieldType], most: int) -> FieldType:
    """Return the type of rows, which are tuples, as one list for each column."""
    lists = {name: list_of(kind, most) for name, kind in kinds.items()}

    def read(value: Any) -> list[tuple[Any, ...]]:
        given = mapping_of(value)
        found = [read_under(name, each.read, given.get(name)) for name, each in lists.items()]
        if len({*map(len, found)}) > 1:
            raise Malformed("its lists differ in length")
        return [*zip(*found, strict=True)]

    def write(rows: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
        return {name: [row[place] for row in rows] for place, name in enumerate(kinds)}

    return FieldType(read, write)


_MEGABYTES = between(-INT64 - 1, INT64)
_NUMBERS = {
    **typed(COUNT, "node_id before after"),
    **typed(INTEGER, "vcpus_used free_ram_mb"),
    **typed(_MEGABYTES, "free_disk_mb disk_mb_used"),
    "claims": COUNT,
}
_NODES = _columns(_NUMBERS, MOST_NODES)
_numbers_of = attrgetter(*_NUMBERS)
# What the instances of a request have in common.
_OF_A_KIND = {
    **typed(INTEGER, "vcpus memory_mb root_gb ephemeral_gb"),
    "project_id": or_none(NAME),
    "flavor_id": or_none(INTEGER),
    "flavor_name": or_none(NAME),
    "image_properties": or_none(DOCUMENT),
}
_KINDS = _columns(_OF_A_KIND, MOST_INSTANCES)
_kind_of = attrgetter(*_OF_A_KIND)
# The numbers are places in the lists of nodes and of kinds.
_ADDED = _columns(
    {**typed(COUNT, "node kind"), "uuid": UUID, "is_alternate": TRUTH}, MOST_INSTANCES
)
_ENDED = _columns({"node": COUNT, "uuid": UUID}, MOST_INSTANCES)
_DOCUMENTS = _columns({"node": COUNT, "name": NAME, "text": or_none(DOCUMENT)}, 2 * MOST_NODES)


def encode(changes: Sequence[NodeChange]) -> dict[str, Any]:
    """Return the arguments of nodes_changed for changes, at most MOST_NODES."""
    kinds: dict[tuple[Any, ...], int] = {}
    placed = [*enumerate(changes)]
    added = [
        (place, kinds.setdefault(_kind_of(row), len(kinds)), row.uuid, row.task_state == ALTERNATE)
        for place, each in placed
        for row in each.added
    ]
    ended = [(place, uuid) for place, each in placed for uuid in each.ended]
    texts = [(place, *item) for place, each in placed for item in each.documents.items()]
    found = {
        "nodes": _NODES.write([*map(_numbers_of, changes)]),
        "kinds": _KINDS.write([*kinds]),
        "added": _ADDED.write(added),
        "ended": _ENDED.write(ended),
        "documents": _DOCUMENTS.write(texts),
    }
    return {CHANGES: found}


@refusing_malformed
def decode(arguments: Mapping[str, Any]) -> list[NodeChange]:
    """Return the changes, whose added claims are of AddedClaim; raise InvalidInput, nothing else.

    Columns of a later release are ignored.
    """
    try:
        return read_under(CHANGES, _read, arguments[CHANGES])
    except IndexError:
        raise Malformed("a number is not a position in its list").under(CHANGES) from None


def _read(value: Any) -> list[NodeChange]:
    given = mapping_of(value)
    changes = [NodeChange(*row) for row in read_under("nodes", _NODES.read, given.get("nodes"))]
    if any(each.after <= each.before for each in changes):
        raise Malformed("a generation is not larger than the one before").under("nodes")
    kinds = read_under("kinds", _KINDS.read, given.get("kinds"))
    for place, kind, uuid, is_alternate in read_under("added", _ADDED.read, given.get("added")):
        task = ALTERNATE if is_alternate else None
        changes[place].added.append(AddedClaim(uuid, task, *kinds[kind]))
    for place, uuid in read_under("ended", _ENDED.read, given.get("ended")):
        changes[place].ended.append(uuid)
    texts: Iterable[Any] = read_under("documents", _DOCUMENTS.read, given.get("documents"))
    for place, name, text in texts:
        if name in (NUMA, PCI):
            changes[place].documents[name] = text
    return changes
