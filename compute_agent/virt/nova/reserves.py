# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What a node of Nova's reserves: what is used of it besides its instances. Pure.

Nova writes the usage of a node in another transaction than an instance that comes, goes or gets
another size. Until it has counted the change for certain, what is reserved is one of some sizes.
"""

from collections.abc import Collection, Iterable
from functools import reduce
from operator import attrgetter, or_

from compute_agent.audit.moves import room_for_migrations
from compute_agent.virt.driver import Guest, Move, NodeName, Size
from inventory.objects.amounts import NAMES, plus

# Seconds after which nova-compute has counted an instance on its node for certain.
SETTLED = 10.0
# The same for one on the move: a live migration may be counted by the second next audit of its
# destination only, two minutes later by default.
MOVE_SETTLED = 130.0


class Reserve:
    """What one node reserves: the last size, 0 at first, as long as that is possible.

    If it is not, the reserve has changed: the next larger size counts, so that a reserve that was
    raised is held at once.
    """

    __slots__ = ("_began", "_held", "_lately", "size")

    def __init__(self) -> None:
        self.size = Size()
        # When it was looked at first.
        self._began: float | None = None
        # What instances and their migrations take, by uuid.
        self._held: dict[str, Size] | None = None
        # Those that Nova may have counted otherwise: since when, and as what.
        self._lately: dict[str, tuple[float, frozenset[Size]]] = {}

    @property
    def is_settled(self) -> bool:
        """Return whether Nova has counted all instances as they are."""
        return not self._lately

    def update(
        self,
        node: NodeName,
        used: Size,
        guests: Collection[Guest],
        moves: Collection[Move],
        now: float,
    ) -> None:
        """Find the size again with what Nova says is used, and what is on the node."""
        held, moving = _held(node, guests, moves), {each.instance_uuid for each in moves}
        before = self._held
        if before is None:
            # What comes, goes or changes may not have been counted yet.
            before = {uuid: held[uuid] for uuid in held.keys() - moving - _busy(guests)}
        for uuid in before.keys() | held.keys():
            old = before.get(uuid, Size())
            if old != held.get(uuid, Size()):
                _, sizes = self._lately.get(uuid, (now, frozenset[Size]()))
                self._lately[uuid] = now, sizes | {old}
        self._held = held
        self._lately = {
            uuid: (since, sizes)
            for uuid, (since, sizes) in self._lately.items()
            if now - since < (MOVE_SETTLED if uuid in moving else SETTLED)
        }
        if self._began is None:
            self._began = now
        self.size = Size(*(self._found(each, used) for each in NAMES))
        # Nobody has seen since when instances are here that were found at the first look: that Nova
        # has not counted one of them yet is likelier than that it reserves less than nothing.
        if now - self._began < SETTLED:
            self.size = Size(*(max(0, amount) for amount in self.size))

    def _found(self, resource: str, used: Size) -> int:
        """Return of one resource the last size, or the next possible one."""
        amount, held = attrgetter(resource), self._held or {}
        rest: int = amount(used)
        rest -= sum(amount(size) for uuid, size in held.items() if uuid not in self._lately)
        # What Nova may have counted of the others: a number with a bit for each possible sum.
        sums = 1
        for uuid, (_, sizes) in self._lately.items():
            counted = {amount(size) for size in (held.get(uuid, Size()), *sizes)}
            sums = reduce(or_, (sums << each for each in counted))
        most = max(0, rest - amount(self.size) + 1)
        # Of all sums that leave the last size or more the largest, else the smallest sum.
        possible = sums & ((1 << most) - 1) or sums & -sums
        return rest - (possible.bit_length() - 1)


def _held(node: NodeName, guests: Iterable[Guest], moves: Collection[Move]) -> dict[str, Size]:
    here = {each.uuid: each for each in guests}
    found = {uuid: each.size for uuid, each in here.items()}
    for uuid in {each.instance_uuid for each in moves}:
        its = [each for each in moves if each.instance_uuid == uuid]
        for room in room_for_migrations(node, its, here):
            found[uuid] = Size(*plus(found.get(uuid, Size()), room.size))
    return found


def _busy(guests: Iterable[Guest]) -> set[str]:
    return {each.uuid for each in guests if each.task_state or each.vm_state == "building"}
