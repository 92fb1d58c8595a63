# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Find the guests without a claim and a row, which may have ended since the hypervisor was polled.

An audit waits for the database after its poll. Meanwhile a guest may end, and its claim may be
released: if it got a row then, members of its server group would join an instance that has gone.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from compute_agent.audit.row_builder import PollResult
from compute_agent.virt.driver import NodeName
from inventory import instances
from inventory.instance_states import released

# The uuids of guests, by node.
Unclaimed = Mapping[NodeName, Collection[str]]


def find(
    connection: sa.Connection,
    found: Iterable[PollResult],
    ids: Mapping[NodeName, int],
    claims: Iterable[sa.Row[Any]],
    before: Unclaimed,
) -> dict[NodeName, set[str]]:
    """Return the guests on locked nodes that have neither a claim nor a row of an instance.

    ids are those of the nodes that have rows: of the others nothing can have been claimed. claims
    are all on these nodes. before are guests that an earlier call has returned: they are left out,
    since a hypervisor that was polled after it still had them.
    """
    claimed = {(row.compute_node_id, row.instance_uuid.lower()) for row in claims}
    # An instance may have a reserved place longer than a claim.
    claimed |= {(row.compute_node_id, row.taken_by.lower()) for row in claims if row.taken_by}
    result = {}
    for each in found:
        if each.name not in ids:
            continue
        known = {*before.get(each.name, ())}
        known |= {row.uuid for row in each.managed if not released(row.vm_state, row.task_state)}
        uuids = {
            guest.uuid.lower(): guest.uuid
            for guest in each.guests
            if guest.uuid not in known and (ids[each.name], guest.uuid.lower()) not in claimed
        }
        if uuids and (new := {*uuids.values()} - _with_rows(connection, each.name, uuids)):
            result[each.name] = new
    return result


def left_out(found: Iterable[PollResult], uuids: Unclaimed, before: Unclaimed) -> list[PollResult]:
    """Return what was found of nodes without those that have to be polled again.

    Of a node that was polled again already only the guests themselves are left out, as though they
    had come after the poll.
    """
    return [
        replace(each, guests=[one for one in each.guests if one.uuid not in uuids[each.name]])
        if each.name in uuids
        else each
        for each in found
        if each.name not in uuids or each.name in before
    ]


def _with_rows(connection: sa.Connection, name: NodeName, uuids: Mapping[str, str]) -> set[str]:
    """Return the guests, given by their uuids in lower case, that count on a node by rows."""
    rows = instances.of_place(connection, name.host, name.node, uuids.values())
    return {
        uuids[row.uuid.lower()]
        for row in rows
        if not row.deleted and not released(row.vm_state, row.task_state)
    }
