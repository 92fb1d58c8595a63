# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What migrations take of a node besides the instances that count there. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from compute_agent.virt.driver import Guest, Move, NodeName, Size
from inventory.objects.amounts import larger
from inventory.objects.numa import InstanceNUMATopology


class Room(NamedTuple):
    """What a migration takes; numa is None where its cells are not known."""

    size: Size
    numa: InstanceNUMATopology | None = None


def room_for_migrations(
    node: NodeName,
    moves: Iterable[Move],
    instances: Mapping[str, Guest],
    claimed: Collection[str] = (),
) -> Iterator[Room]:
    """Yield what migrations take of a node besides its instances, which are given by uuid.

    Only the first migration of an instance counts: the newest should come first. An instance that
    is resized on its own node counts there as one of its ends already, and this holds the other.
    claimed are the uuids of the instances for which a claim holds the room at their destination.
    """
    seen = set()
    for move in moves:
        if move.instance_uuid in seen:
            continue
        seen.add(move.instance_uuid)
        if node not in (move.source, move.destination):
            continue
        if node == move.destination and move.instance_uuid in claimed:
            continue
        instance = instances.get(move.instance_uuid)
        if instance is not None:
            if move.source == move.destination:
                yield Room(_other_size(instance.size, move), _other_cells(instance.numa, move))
        elif move.destination == node:
            yield Room(move.new, move.new_numa)
        else:
            yield Room(move.old, move.old_numa)


def leaving_sizes(node: NodeName, moves: Iterable[Move]) -> dict[str, Size]:
    """Return what instances that leave a node may need there again, by uuid in lower case."""
    newest: dict[str, Move] = {}
    for move in moves:
        newest.setdefault(move.instance_uuid, move)
    return {uuid: move.old for uuid, move in newest.items() if move.source == node}


def _other_size(size: Size, move: Move) -> Size:
    """Return the other size of an instance that is being resized: the old or the new one."""
    if size == move.old:
        return move.new
    if size == move.new:
        return move.old
    # It is neither of them: holding too little would be the worse mistake.
    return Size(*larger(move.old, move.new))


def _other_cells(numa: InstanceNUMATopology | None, move: Move) -> InstanceNUMATopology | None:
    """Return the other cells. Both ends may be of one size, so that sizes do not tell."""
    new = move.new_numa
    is_new = new is not None and new.cells == (numa.cells if numa else [])
    return move.old_numa if is_new else new
