# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Build the request to decide from what a caller sent, and the answer from the decision."""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from uuid import UUID, uuid5

from oslo_log import log

from inventory import server_groups
from inventory.claims.group_locks import GroupMembers, hosts_of
from inventory.engine import Database
from inventory.errors import counted
from inventory.objects.instance_group import AFFINITY, ANTI_AFFINITY, InstanceGroup
from scheduler.claims.claimer import TimedReads
from scheduler.decision.pipeline import Request
from scheduler.decision.types import Decision, OtherStandby
from scheduler.hosts import aggregate_metadata
from scheduler.hosts.host_state import Candidate
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec
from scheduler.objects.selection import Answer, SchedulerLimits, Selection
from scheduler.wire.arguments import SelectArguments
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import InvalidInput, NoValidHost

LOG = log.getLogger(__name__)
# A tenant may read it.
ONLY_PLACEMENT = (
    "Resources of ports or accelerators are requested, which only placement can allocate."
)
# The cell of a host for which neither the configuration nor the caller names one.
NO_CELL = "00000000-0000-0000-0000-00000000ce11"
# Namespace of the uuids made for unnamed instances; they are in claims, so it never changes.
_NAMES = UUID("6f4a2b9e-0d53-4c0b-9a27-5b1f8e3c7d64")
_LIMITS = ("vcpu", "memory_mb", "disk_gb", "numa_topology")


def build_request(
    arguments: SelectArguments,
    caller: RequestContext,
    database: Database | TimedReads,
    max_attempts: int,
    allocates: bool = False,
) -> Request:
    """Return the request to decide, with the server group that its hint names.

    Raises InvalidInput for a group that does not exist, NoValidHost for resources that only
    Placement can allocate, unless the request allocates there, and DatabaseUnavailable.
    """
    if not allocates:
        _refuse_what_only_placement_allocates(arguments.spec, caller)
    alternates = arguments.return_objects and arguments.return_alternates
    return Request(
        _with_group(arguments.spec, database),
        arguments.instance_uuids,
        max_attempts - 1 if alternates else 0,
        seed(caller.request_id, arguments.instance_uuids),
        caller.is_admin,
    )


def name_instances(request: Request, request_id: str | None, digest: str) -> Request:
    """Return a request whose instances all have uuids: the same ones when it is sent again.

    Old callers name only the first instance. Without a request id a repetition cannot be
    recognized, and uuids would mix up different requests.
    """
    if request_id is None or None not in request.instance_uuids:
        return request
    uuids = [
        uuid or str(uuid5(_NAMES, f"{request_id} {digest} {index}"))
        for index, uuid in enumerate(request.instance_uuids)
    ]
    return replace(request, instance_uuids=uuids)


def with_members(request: Request, uuids: Collection[str], members: GroupMembers) -> Request:
    """Return a request with the hosts of other members of its group than these instances.

    With affinity only the members found here count; with other policies, soft ones too, a host has
    at least as many as either these or the caller's list say.
    """
    spec, group = request.spec, request.spec.instance_group
    if group is None or group.uuid is None or not group.is_claimed:
        return request
    there = hosts_of(members.of(group.uuid, group.policy == ANTI_AFFINITY), uuids)
    if not there:
        return request
    hosts = there if group.policy == AFFINITY else Counter(group.hosts) | there
    found = spec.for_instance(spec.instance_uuid)
    found.instance_group = group.with_hosts()
    found.instance_group.hosts = sorted(hosts.elements())
    others = _that_may_move(request.others, group, members) if request.others else ()
    return replace(request, spec=found, others=others)


def _that_may_move(
    others: Iterable[OtherStandby], group: InstanceGroup, members: GroupMembers
) -> tuple[OtherStandby, ...]:
    """Return those of some standbys that are still there, and alone bring their members there."""
    ids, uuid = [each.row_id for each in others], group.uuid or ""
    without, listed = members.of(uuid, but=ids), Counter(group.hosts)
    there = hosts_of(without, ())
    return tuple(
        each
        for each in others
        if each.by_hint
        or (
            members.has_standby(each.member, each.row_id)
            and each.host not in without.get(each.member, ())
            and listed[each.host] <= there[each.host]
        )
    )


def seed(request_id: str | None, instance_uuids: Sequence[str | None]) -> int:
    """Return a number that is the same for the same request and differs between requests."""
    text = " ".join([request_id or "", *(uuid or "" for uuid in instance_uuids)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def build_answer(
    decision: Decision, hosts: HostTable, spec: RequestSpec, default_zone: str = "nova"
) -> Answer:
    """Return for each instance its destination, followed by its alternates."""
    destination = spec.requested_destination
    requested_cell = destination.cell.uuid if destination and destination.cell else None

    def selection(candidate: Candidate) -> Selection:
        aggregates = hosts.get(candidate.row, "aggregates")
        zones = aggregate_metadata.split_values(aggregates, "availability_zone")
        return Selection(
            service_host=candidate.host,
            nodename=candidate.nodename,
            compute_node_uuid=candidate.uuid or "",
            cell_uuid=candidate.cell_uuid or requested_cell or NO_CELL,
            limits=SchedulerLimits(**{name: candidate.limits.get(name) for name in _LIMITS}),
            availability_zone=min(zones, default=default_zone),
        )

    # Instances share their alternates.
    spare = {id(each): each for one in decision.placements for each in one.alternates}
    others = {key: selection(each) for key, each in spare.items()}
    return [
        [selection(one.chosen), *(others[id(each)] for each in one.alternates)]
        for one in decision.placements
    ]


def _refuse_what_only_placement_allocates(spec: RequestSpec, caller: RequestContext) -> None:
    """Raise NoValidHost for a request with resource groups, unless it is a rebuild.

    A conductor reads from the allocation which provider serves which group. Here it would find
    none and fail after the claim. A rebuild leaves the allocation as it is.
    """
    groups = spec.requested_resources
    if not groups or spec.is_rebuild:
        return
    requesters = len({each.requester_id for each in groups if each.requester_id})
    LOG.info(
        "Refused request %s: it has %s of %s, which only placement can allocate",
        caller.request_id,
        counted(len(groups), "group of resources", "groups of resources"),
        counted(requesters, "port or accelerator", "ports or accelerators"),
    )
    raise NoValidHost(ONLY_PLACEMENT)


def _with_group(spec: RequestSpec, database: Database | TimedReads) -> RequestSpec:
    """Return the spec with the server group that its hint names, unless it has a group already."""
    hint = spec.get_scheduler_hint("group")
    if spec.instance_group is not None or not hint:
        return spec
    group = database.read(lambda connection: server_groups.find(connection, str(hint)))
    if group is None:
        raise InvalidInput(f"scheduler_hints.group: there is no server group {str(hint)[:64]!r}")
    found = spec.for_instance(spec.instance_uuid)
    found.instance_group = InstanceGroup(
        group.uuid, group.policy, group.members, group.hosts, group.rules
    )
    return found
