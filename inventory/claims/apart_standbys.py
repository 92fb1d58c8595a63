# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Standbys from which the hint different_host keeps instances apart.

They are those of instances that the hint names, and of instances that name one that moves. No row
stands for such a pair: the nodes do on which both want to be.
"""

import json
from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from inventory.claims.group_locks import OTHERS, SOMEBODY
from inventory.claims.types import HOST, ClaimLost, ClaimRequest
from inventory.tables import allocations, standbys

_S = standbys.c
# How it stands in the requests to evacuate instances.
_HINT = "%different_host%"


def of(connection: sa.Connection, named: Collection[str], moved: Collection[str]) -> list[Any]:
    """Return the standbys of the named instances, and those whose requests name the moved ones."""
    naming = [
        sa.and_(_S.request.like(_HINT), _S.request.contains(uuid, autoescape=True))
        for uuid in sorted(moved)
    ]
    query = OTHERS.where(sa.or_(SOMEBODY.in_(sorted(named)), *naming))
    return [
        row
        for row in connection.execute(query)
        if row.member in named or (row.member not in moved and _names(row.request, moved))
    ]


def _names(request: str, uuids: Collection[str]) -> bool:
    """Return whether the hint in the text of a request names one of these instances."""
    try:
        (fields,) = json.loads(request).values()
        hint = json.dumps(fields["scheduler_hints"]["different_host"])
    # It is no text of this release, or has no such hint.
    except (ValueError, AttributeError, KeyError, TypeError):
        return False
    return any(uuid in hint for uuid in uuids)


def check(connection: sa.Connection, request: ClaimRequest) -> None:
    """Raise ClaimLost for a node on which others have come with which a request may not share it.

    The nodes are locked.
    """
    named, moved = request.apart_from, request.apart_moves
    if not named and not moved:
        return
    gone, own = {each.replaces for each in request.standbys}, {*request.identity.uuids}
    claimed = {each.node_id for each in request.claims}
    held = {each.node_id for each in request.standbys if each.replaces is None}
    for row in of(connection, named, moved):
        nodes = claimed | held if row.member in named else claimed
        if row.compute_node_id in nodes and row.id not in gone and row.member not in own:
            reason = f"a standby has come to {row.host} from which it has to be apart"
            raise ClaimLost({row.compute_node_id}, reason, HOST)
    c = allocations.c
    there = sa.select(c.compute_node_id).where(c.instance_uuid.in_(sorted(named)))
    come = {*connection.scalars(there)} & held
    if come:
        raise ClaimLost(come, "an instance has come from which its standby has to be apart", HOST)
