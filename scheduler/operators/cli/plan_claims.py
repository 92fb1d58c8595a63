# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Claims that hold the room for the moves of a step of a plan."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from uuid import uuid4

from oslo_config import cfg

from inventory.claims.types import PendingClaim
from inventory.errors import OperationRefused
from scheduler.objects.request_spec import Destination
from scheduler.operators.live_hosts import LiveHosts
from scheduler.operators.planning.fleet import Fleet
from scheduler.operators.planning.types import PlannedMove
from scheduler.select_destinations.destination_builder import build_destinations, load_allocator
from scheduler.wire.arguments import SelectArguments
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import InvalidInput, NoValidHost


def hold_room(
    conf: cfg.ConfigOpts,
    live: LiveHosts,
    fleet: Fleet,
    moves: Iterable[PlannedMove],
    lease: float | None,
) -> list[dict[str, Any]]:
    """Claim for moves, as schedulers do; return what became of each.

    Raises OperationRefused where nothing is claimed, or where claims are allocations in Placement.
    """
    if load_allocator(conf) is not None:
        raise OperationRefused(
            "--claim cannot hold room where claims are allocated in Placement: Nova moves the"
            " allocations of an instance itself when it is migrated"
        )
    destinations = build_destinations(conf, live.database)
    if destinations.claimer is None:
        raise OperationRefused("--claim cannot hold room: [claims] enabled = false")
    # The instance may have got a host since it was read.
    settings = replace(destinations.claimer.settings, alternates=False, replaces=False)
    destinations.claimer.settings = replace(settings, lease=lease or settings.lease)
    found = []
    for move in moves:
        spec = fleet.residents[move.uuid].spec.for_instance(move.uuid)
        spec.requested_destination = Destination(host=move.target.host, node=move.target.node)
        caller = RequestContext(request_id=f"req-{uuid4()}", is_admin=True)
        try:
            destinations.select(SelectArguments(spec, [move.uuid]), caller)
        except (InvalidInput, NoValidHost, PendingClaim) as error:
            found.append(_held(move, str(error)))
        else:
            found.append(_held(move))
    return found


def _held(move: PlannedMove, why_not: str | None = None) -> dict[str, Any]:
    return {
        "instance": move.uuid,
        "host": move.target.host,
        "held": why_not is None,
        "why_not": why_not,
    }
