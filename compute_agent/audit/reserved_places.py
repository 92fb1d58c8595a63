# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Hold, give back and end the reserved places on a node, by what an audit has found there."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import sqlalchemy as sa

from compute_agent.virt.driver import Size
from inventory.claims import places
from inventory.claims.places import Place
from inventory.objects.amounts import Amounts, covers


@dataclass(slots=True)
class SettledPlaces:
    """What the places on a node hold; has_changes is set if any has changed or ended."""

    held: list[Size] = field(default_factory=list)
    has_changes: bool = False


def settle(
    connection: sa.Connection,
    there: Iterable[Place],
    instances: Mapping[str, Amounts],
    coming: Mapping[str, Amounts],
) -> SettledPlaces:
    """Write what the places on a node hold from now on, whose row is locked.

    instances has what those take that count on the node, by uuid in lower case; coming what pending
    claims take, by the places that they have taken. A place whose instance is gone is held again;
    places of ended reservations go to the next ones, or end, and their instances stay.
    """
    there = list(there)
    ended = [each for each in there if not each.lasts]
    before = [each for each in there if each.lasts]
    after = settled(before, instances, coming)
    pairs = zip(after, before, strict=True)
    changed = [now for now, then in pairs if now != then or now.passes]
    places.write(connection, changed)
    places.delete(connection, [each.row_id for each in ended])
    return SettledPlaces([Size(*each.holds) for each in after], bool(changed or ended))


def settled(
    there: Collection[Place], instances: Mapping[str, Amounts], coming: Mapping[str, Amounts]
) -> list[Place]:
    """Return the places as they are to be held, in their order.

    An instance keeps one place: after a resize in place it has taken two, and needs the smallest
    that it fits into.
    """
    of_instance: dict[str, list[Place]] = defaultdict(list)
    for each in there:
        if each.taken_by and each.uuid not in coming:
            of_instance[each.taken_by.lower()].append(each)
    kept = {
        min(taken, key=lambda each: (not covers(each.size, size), each.size)).uuid
        for uuid, taken in of_instance.items()
        if (size := instances.get(uuid)) is not None
    }
    found = []
    for each in there:
        if each.taken_by and each.uuid in coming:
            found.append(each.taken(each.taken_by, coming[each.uuid]))
        elif each.taken_by and each.uuid in kept:
            found.append(each.taken(each.taken_by, instances[each.taken_by.lower()]))
        else:
            found.append(each.free())
    return found
