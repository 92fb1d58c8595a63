# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What becomes of the claims on nodes at which an audit has looked."""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import sqlalchemy as sa

from compute_agent import usage
from compute_agent.account import Findings
from compute_agent.virt.driver import NodeName
from inventory import allocations
from inventory.allocations import Seen
from inventory.orders import CONFIRMED, PENDING

# SQLite's clock cannot tell what happened within less from each other.
_TICK = timedelta(milliseconds=1)


@dataclass(slots=True)
class Settled:
    """The claims on a node that count on, and the uuids of the instances of all others.

    expired are those that never came; ended are of claims that held nothing, or an alternate, or
    whose instance has come elsewhere.
    unsure says that the next audit has to look again whatever it finds.
    """

    pending: list[Any] = field(default_factory=list)
    confirmed: list[str] = field(default_factory=list)
    expired: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    unsure: bool = False

    @property
    def is_news(self) -> bool:
        """Tell whether anything was written."""
        return bool(self.confirmed or self.expired or self.ended)


def settle(
    connection: sa.Connection, found: Sequence[Findings], ids: Mapping[NodeName, int], looked: float
) -> dict[NodeName, Settled]:
    """Write what becomes of the claims on nodes, whose rows are locked and have these ids.

    looked is when the hypervisor was asked, by the clock time.monotonic().
    """
    rows, now = allocations.on_nodes(connection, ids.values())
    superseded = allocations.superseded(connection, ids.values()) if rows else set()
    moment = now - timedelta(seconds=time.monotonic() - looked)
    on_node: dict[int, list[sa.Row[Any]]] = {}
    for row in rows:
        on_node.setdefault(row.compute_node_id, []).append(row)
    settled: dict[NodeName, Settled] = {}
    for each in found:
        here = on_node.get(ids.get(each.name, 0), [])
        seen = _seen(each, here) if here else {}
        view = _View(seen, moment, superseded)
        settled[each.name] = _settle(connection, here, view) if here else Settled()
    return settled


class _View(NamedTuple):
    """What was seen on a node, when, and the ids of claims whose instances came elsewhere."""

    seen: Seen
    looked: datetime
    superseded: Collection[int]


def _settle(connection: sa.Connection, rows: Collection[sa.Row[Any]], view: _View) -> Settled:
    """Write what becomes of the claims on a node.

    An instance that was seen before it was claimed for had been there before, and may be on its
    way back: only a later look can confirm its claim. What is overdue since the look may have come
    since, as well.
    """
    newest = view.looked + _TICK
    later = {row.id for row in rows if row.state != CONFIRMED and row.created_at > newest}
    earlier = [row for row in rows if row.id not in later]
    settlement = allocations.settled(earlier, view.seen, view.looked, view.superseded)
    allocations.settle(connection, settlement)
    counting = later | {row.id for row in settlement.pending}
    confirmed, ended = {*settlement.confirmed}, {*settlement.ended}
    waiting = {row.id for row in rows if row.state == PENDING}
    expired = ended & waiting - {*view.superseded}
    return Settled(
        pending=[row for row in rows if row.id in counting],
        confirmed=[row.instance_uuid for row in rows if row.id in confirmed],
        expired=[row.instance_uuid for row in rows if row.id in expired],
        ended=[row.instance_uuid for row in rows if row.id in ended - expired],
        unsure=any(row.instance_uuid.lower() in view.seen for row in rows if row.id in later),
    )


def _seen(found: Findings, claims: Collection[sa.Row[Any]]) -> Seen:
    """Return the instances that were seen on a node.

    What is claimed of cells and devices nobody but the guest takes over: rows say nothing of it.
    """
    exacting = {row.instance_uuid.lower() for row in claims if row.numa or row.pci}
    here = usage.on_node(found.guests, found.managed)
    there = [each for each in usage.each_once(found.guests) if each.uuid.lower() in exacting]
    taken_over = [each for each in here if each.uuid.lower() not in exacting] + there
    return {each.uuid.lower(): (each.size.vcpus, each.size.memory_mb) for each in taken_over}
