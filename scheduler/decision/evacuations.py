# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Place an instance that has lost its host where its standby is."""

from dataclasses import replace

import numpy as np

from inventory.objects.amounts import amounts_of, covers
from inventory.objects.standby import OwnStandby, Protection
from scheduler.decision import pipeline
from scheduler.decision.pipeline import Plan, Request
from scheduler.decision.types import Decision
from scheduler.filters.compute import ComputeFilter
from scheduler.hosts.resources import KINDS
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import Destination, RequestSpec


def is_alive(hosts: HostTable, plan: Plan, row: int) -> bool:
    """Return whether the compute service of a host is alive, as the filters see it."""
    filters = [each for each in plan.filters if isinstance(each, ComputeFilter)]
    judge = filters[0] if filters else ComputeFilter()
    return bool(judge.alive(hosts)[row])


def row_of_node(hosts: HostTable, node_id: int) -> int | None:
    """Return the row of a node by its id."""
    found = np.flatnonzero((hosts.node_id == node_id) & hosts.present)
    return int(found[0]) if len(found) else None


def lost_standby(
    hosts: HostTable, request: Request, plan: Plan, protection: Protection
) -> OwnStandby | None:
    """Return the standby of an instance whose place has died; callers evacuate one at a time.

    They name the host that the instance has lost as one to ignore, or have no list of such hosts:
    then it has lost only a host on which it was seen. The request to build one that was to come to
    a host is no evacuation, however often it is sent. Nor has a move lost the hosts that it names
    besides the one where the instance was seen. A resize that may stay on its host has an empty
    list, and has lost nothing.
    """
    spec = request.spec
    if len(request.instance_uuids) != 1 or spec.ignore_hosts == []:
        return None
    ignored = {name.lower() for name in spec.ignore_hosts or ()}
    rows = {each: row_of_node(hosts, each.place_node_id) for each in protection.own}
    # Of a node that is gone nobody knows the name any more.
    named = [
        each
        for each, row in rows.items()
        if not ignored or row is None or hosts.get(row, "host").lower() in ignored
    ]
    for each in [each for each in named if each.is_seen] or (named if ignored else ()):
        row = rows[each]
        if row is None or not is_alive(hosts, plan, row):
            return each
    return None


def only_on(hosts: HostTable, row: int, spec: RequestSpec) -> RequestSpec:
    """Return a request that may go to the host of a row alone."""
    host, node = hosts.get(row, "host"), hosts.get(row, "nodename")
    found = spec.for_instance(spec.instance_uuid)
    wanted = spec.requested_destination or Destination()
    found.requested_destination = replace(wanted, host=host, node=node)
    return found


def to_standby(hosts: HostTable, request: Request, plan: Plan, lost: OwnStandby) -> Decision | None:
    """Place an instance where its standby is; return None if that host does not pass.

    The filters see as free what the host holds for standbys: as much of it as this one has is the
    instance's own.
    """
    row = row_of_node(hosts, lost.node_id) if lost.node_id is not None else None
    if row is None or not covers(lost.size, amounts_of(request.spec)):
        return None
    host, node = hosts.get(row, "host"), hosts.get(row, "nodename")
    wanted = request.spec.requested_destination or Destination()
    if wanted.host not in (None, host) or wanted.node not in (None, node):
        return None
    spec = only_on(hosts, row, request.spec)
    before = {kind.column: hosts.get(row, kind.column) for kind in KINDS}
    for kind, used in zip(KINDS, lost.used, strict=True):
        total = int(kind.amounts(hosts, np.array([row]))[0].item())
        hosts.set(row, kind.column, total - used if kind.counts_free else used)
    decision = pipeline.decide(hosts, replace(request, spec=spec, alternates=0, places=()), plan)
    if decision.placements:
        (placed,) = decision.placements
        return replace(decision, placements=(replace(placed, place=lost.place),))
    for name, value in before.items():
        hosts.set(row, name, value)
    return None
