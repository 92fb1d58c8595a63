# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""From what a caller asks to what is to be decided."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar
from uuid import UUID, uuid5

import sqlalchemy as sa
from oslo_log import log

from inventory import server_groups
from scheduler.decision.pipeline import Request
from scheduler.objects.instance_group import InstanceGroup
from scheduler.objects.request_spec import RequestSpec
from scheduler.rpc.codec import SelectArguments
from scheduler.rpc.context import RequestContext
from scheduler.rpc.failures import InvalidInput, NoValidHost

LOG = log.getLogger(__name__)
T = TypeVar("T")
# A tenant may read it.
ONLY_PLACEMENT = (
    "Resources of ports or accelerators are requested, which only placement can allocate."
)
# What the names that instances get here are made under; they are in claims, so it never changes.
_NAMES = UUID("6f4a2b9e-0d53-4c0b-9a27-5b1f8e3c7d64")


class Reader(Protocol):
    """What reads the database."""

    def read(self, work: Callable[[sa.Connection], T]) -> T:
        """Return work(connection)."""


def request_of(
    asked: SelectArguments, caller: RequestContext, database: Reader, max_attempts: int
) -> Request:
    """Return the request with the server group that its hint names.

    Raises InvalidInput for one that does not exist, NoValidHost for resources that nobody here can
    allocate, and DatabaseUnavailable.
    """
    _refuse_what_only_placement_allocates(asked.spec, caller)
    alternates = asked.return_objects and asked.return_alternates
    return Request(
        _with_group(asked.spec, database),
        asked.instance_uuids,
        max_attempts - 1 if alternates else 0,
        seed(caller.request_id, asked.instance_uuids),
        caller.is_admin,
    )


def with_names(request: Request, request_id: str | None, digest: str) -> Request:
    """Return a request whose instances all have names: the same ones when it is sent again.

    Old callers name only the first instance. Without an id the same request cannot be told, and
    names would only mix up different ones.
    """
    if request_id is None or None not in request.instance_uuids:
        return request
    names = [
        uuid or str(uuid5(_NAMES, f"{request_id} {digest} {index}"))
        for index, uuid in enumerate(request.instance_uuids)
    ]
    return replace(request, instance_uuids=names)


def seed(request_id: str | None, instance_uuids: Sequence[str | None]) -> int:
    """Return a number that is the same for the same request and differs between requests."""
    text = " ".join([request_id or "", *(uuid or "" for uuid in instance_uuids)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def _refuse_what_only_placement_allocates(spec: RequestSpec, caller: RequestContext) -> None:
    """Raise NoValidHost for a request with groups of resources, unless the instance stays.

    A conductor looks up in the allocation which provider serves which group, and would fail there,
    with a host that had been claimed in vain. A rebuild leaves the allocation as it is.
    """
    groups = spec.requested_resources
    if not groups or spec.is_rebuild:
        return
    requesters = {each.requester_id for each in groups if each.requester_id}
    LOG.info(
        "Refused request %s: it has %s groups of resources of %s ports or accelerators, which only"
        " placement can allocate",
        caller.request_id,
        len(groups),
        len(requesters),
    )
    raise NoValidHost(ONLY_PLACEMENT)


def _with_group(spec: RequestSpec, database: Reader) -> RequestSpec:
    """Return the spec with the server group that its hint names, if it brings none itself."""
    hint = spec.get_scheduler_hint("group")
    if spec.instance_group is not None or not hint:
        return spec
    group = database.read(lambda connection: server_groups.find(connection, str(hint)))
    if group is None:
        raise InvalidInput(f"scheduler_hints.group: there is no server group {str(hint)[:64]!r}")
    found = spec.for_instance(spec.instance_uuid)
    found.instance_group = InstanceGroup(
        group.uuid,
        group.policy,
        group.members,
        group.hosts,
        group.rules,
    )
    return found
