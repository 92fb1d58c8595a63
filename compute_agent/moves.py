# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The room that is kept for instances on the move, at the end that their row does not name.

Source: behaviour reference of compute hosts, 2.5.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from compute_agent.virt.driver import Guest, NodeName, Size


@dataclass(frozen=True, slots=True)
class Move:
    """A migration that is under way; either end may be unknown so far."""

    instance_uuid: str
    source: NodeName | None
    destination: NodeName | None
    old: Size
    new: Size


def kept_room(
    node: NodeName,
    moves: Iterable[Move],
    instances: Mapping[str, Guest],
    claimed: Collection[str] = (),
) -> Iterator[Size]:
    """Yield what the moves take of a node besides its instances, which are given by uuid.

    Of an instance's moves only the first counts, so the newest should come first. An instance that
    is resized on its own node counts there with one size already, and is kept room for the other.
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
        if instance is None:
            yield move.new if move.destination == node else move.old
        elif move.source == move.destination:
            yield _other(instance.size, move)


def _other(size: Size, move: Move) -> Size:
    """Return the size that an instance of this one had before the move, or will have after it."""
    if size == move.old:
        return move.new
    if size == move.new:
        return move.old
    # Which of them it has cannot be told: too little room would be the worse mistake.
    return Size(
        max(move.old.vcpus, move.new.vcpus),
        max(move.old.memory_mb, move.new.memory_mb),
        max(move.old.disk_mb, move.new.disk_mb),
    )
