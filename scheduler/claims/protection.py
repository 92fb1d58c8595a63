# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Which instances are protected, and the standbys of a decision as what is to be claimed."""

import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeVar

import sqlalchemy as sa
from oslo_log import log

from inventory import stored_documents
from inventory.claims import apart_standbys, group_locks, standby_rows
from inventory.claims.standbys import read_protection, read_sums
from inventory.claims.types import GroupRule, Standby
from inventory.objects.amounts import amounts_of
from inventory.objects.instance_group import ANTI_AFFINITY, InstanceGroup
from inventory.objects.standby import EXTRA_SPEC, NONE, PREFERRED, REQUIRED, Protection
from inventory.objects.standby_sums import NodeSums
from scheduler.decision.pipeline import Request
from scheduler.decision.standbys import evacuation_spec
from scheduler.decision.types import Decision, OtherStandby, Placement
from scheduler.filters.different_host import DifferentHostFilter
from scheduler.history.tagged_json import tagged_text, value_of_text
from scheduler.hosts.host_state import Candidate
from scheduler.hosts.limits import GROUP, GroupLimit
from scheduler.objects.request_spec import RequestSpec
from scheduler.wire.errors import InvalidInput, NoValidHost

LOG = log.getLogger(__name__)
T = TypeVar("T")
# For how many times as long as the reading has taken its result is used.
TIMES = 20
MODES = (NONE, PREFERRED, REQUIRED)
# Tenants may read it.
UNPROTECTED = (
    "The instance has to be protected, but this scheduler is not configured to protect instances."
)
# Returns where a candidate is, with the limits and columns by which it was chosen.
Where = Callable[[Candidate], Mapping[str, Any]]


class Reads(Protocol):
    """What reads of a database."""

    def read(self, work: Callable[[sa.Connection], T]) -> T:
        """Return work(connection)."""


@dataclass(frozen=True, slots=True)
class ProtectionSettings:
    """How instances are protected whose flavors say nothing: those of some projects, or all."""

    mode: str = NONE
    projects: frozenset[str] = frozenset()

    def mode_of(self, spec: RequestSpec) -> str | None:
        """Return how the instances of a request are protected, None where they are not.

        Raises InvalidInput for a flavor that says something else.
        """
        text = (spec.flavor.extra_specs or {}).get(EXTRA_SPEC)
        if text is None:
            is_meant = not self.projects or spec.project_id in self.projects
            text = self.mode if is_meant else NONE
        if text not in MODES:
            allowed = ", ".join(MODES)
            raise InvalidInput(f"extra_specs: {EXTRA_SPEC} is {text[:64]!r}, not one of {allowed}")
        return None if text == NONE else text


class KnownSums:
    """What nodes hold for standbys, read again when it has become old; one per process.

    Claims are guarded by what is held then, so an old figure costs an attempt at most. It is used
    for many times as long as the reading has taken, so that a request of a burst waits for none.
    """

    def __init__(self) -> None:
        self._sums, self._until = NodeSums(), -math.inf

    def get(self, reads: Reads, fresh: bool) -> NodeSums:
        """Return the sums of all nodes; fresh means as they are now."""
        began = time.monotonic()
        if fresh or began >= self._until:
            self._sums = reads.read(read_sums)
            now = time.monotonic()
            self._until = now + TIMES * (now - began)
        return self._sums


def protected(
    request: Request,
    settings: ProtectionSettings,
    reads: Reads,
    known: KnownSums,
    fresh: bool,
    reserving: bool = False,
) -> Request:
    """Return a request with what has to be known to protect its instances, if it has to be.

    reserving: the project has reservations, whose places may be protected. fresh means that all has
    to be as it is now. Else it is not asked whether the instances have standbys unless they leave a
    host: hardly any has, and its next attempt is fresh.

    Raises InvalidInput and what reads.read() does.
    """
    uuids = [uuid for uuid in request.instance_uuids if uuid]
    apart = standbys_apart(request.spec, uuids, reads)
    if apart:
        spec = request.spec.for_instance(request.spec.instance_uuid)
        spec.kept_apart = {each.host for each in apart}
        request = replace(request, spec=spec)
    spec = request.spec
    others = other_standbys(spec.instance_group, uuids, reads, apart) if fresh else ()
    mode = settings.mode_of(spec)
    if mode is None and len(uuids) == 1 and spec.ignore_hosts:
        # A move: it may have been protected before this was switched off.
        mode = reads.read(partial(standby_rows.mode_of, instance_uuid=uuids[0]))
    if mode is None and not reserving and not others:
        return request
    mode = mode or NONE
    sums = known.get(reads, fresh)
    if not (fresh or spec.ignore_hosts or (spec.retry and spec.retry.hosts)):
        return replace(request, protection=Protection(mode, sums))
    read = partial(read_protection, mode=mode, uuids=uuids, sums=sums)
    return replace(request, protection=reads.read(read), others=others)


def other_standbys(
    group: InstanceGroup | None,
    uuids: Collection[str],
    reads: Reads,
    apart: Sequence[OtherStandby] = (),
) -> tuple[OtherStandby, ...]:
    """Return the standbys of members of a group that keep apart, other than these instances.

    Those of instances that hints keep apart are added.
    """
    if group is None or group.uuid is None or group.policy != ANTI_AFFINITY:
        return tuple(apart)
    rows = reads.read(partial(group_locks.standbys_of, group=group.uuid))
    known = {each.row_id for each in apart}
    found = _others((row for row in rows if row.id not in known), uuids)
    return (*found, *apart)


def standbys_apart(
    spec: RequestSpec, uuids: Collection[str], reads: Reads
) -> tuple[OtherStandby, ...]:
    """Return the standbys from which the hint different_host keeps instances apart.

    They are those of instances that the hint names, and of those that name one that moves.
    """
    named, moved = DifferentHostFilter().named(spec), uuids if spec.ignore_hosts else ()
    if not named and not moved:
        return ()
    rows = reads.read(partial(apart_standbys.of, named=named, moved=moved))
    return tuple(replace(each, by_hint=True) for each in _others(rows, uuids))


def _others(rows: Iterable[Any], uuids: Collection[str]) -> tuple[OtherStandby, ...]:
    """Return the standbys of rows other than those of instances.

    One whose request cannot be read is left out: it stays where it is.
    """
    return tuple(
        OtherStandby(
            row.id,
            row.instance_uuid,
            row.member,
            row.place is not None,
            row.place_node_id,
            row.compute_node_id,
            row.host,
            tuple(row.domains.split(",")),
            amounts_of(row),
            row.mode,
            row.project_id,
            spec,
        )
        for row in rows
        if row.member not in uuids
        if (spec := of_stored_request(row.member, row.request, lambda spec: spec)) is not None
    )


def group_rule(spec: RequestSpec, chosen: Candidate | None) -> GroupRule | None:
    """Return the rule for the members of the server group, if there is one.

    It is not enforced without a limit by a filter, as for a forced host or a soft policy: then it
    only makes the member visible to others.
    """
    group, limit = spec.instance_group, chosen.limits.get(GROUP) if chosen else None
    if group is None or group.uuid is None or not group.is_claimed:
        return None
    enforced = isinstance(limit, GroupLimit)
    most = limit.most if isinstance(limit, GroupLimit) else None
    return GroupRule(group.uuid, group.members, most, group.hosts, enforced)


def refuse_unprotected(spec: RequestSpec) -> None:
    """Raise NoValidHost where a flavor requires a standby and nothing is claimed.

    A rebuild stays where it is, with the standby that it has.
    """
    if not spec.is_rebuild and ProtectionSettings().mode_of(spec) == REQUIRED:
        raise NoValidHost(UNPROTECTED)


def build_standbys(
    spec: RequestSpec, mode: str, placements: Sequence[Placement], where: Where
) -> list[Standby]:
    """Return what is to be held for placements; raise NoValidHost if the driver has not protected.

    An instance that cannot have the standby of its place is protected as by the mode preferred.
    where returns the fields of a claim for a candidate.
    """
    found = []
    for each in placements:
        if each.standby is None or each.instance_uuid is None:
            if mode == REQUIRED:
                raise NoValidHost(UNPROTECTED)
            continue
        is_lent = mode == NONE and each.standby.place is None
        found.append(_standby(spec, PREFERRED if is_lent else mode, each, where))
    return found


def build_moved(decision: Decision, where: Where) -> list[Standby]:
    """Return what is to be held for standbys of others that have moved."""
    return [
        Standby(
            instance_uuid=before.instance_uuid,
            place_node_id=before.place_node_id,
            domains=each.after.domains,
            mode=before.mode,
            size=each.after.size,
            request=request_to_text(before.spec),
            reason=each.after.reason,
            project_id=before.project_id,
            group=group_rule(each.before.spec, each.after.host),
            of_place=before.of_place,
            replaces=before.row_id,
            member=before.member,
            **there(each.after.host, where),
        )
        for each in decision.moved
        for before in [each.before]
    ]


def log_moved(decision: Decision) -> None:
    """Log which standbys of others have made room."""
    for each in decision.moved:
        member, host = each.before.member, each.before.host
        if each.after.host is None:
            text = (
                "Gave up the standby of instance %s on %s for another instance that has to be"
                " apart from it; the keeper looks for another standby"
            )
            LOG.warning(text, member, host)
        else:
            text = (
                "Moved the standby of instance %s from %s to %s for another instance that has to"
                " be apart from it"
            )
            LOG.info(text, member, host, each.after.host.host)


def there(candidate: Candidate | None, where: Where) -> dict[str, Any]:
    """Return the fields of a standby that say where it is held."""
    if candidate is None:
        return {"node_id": None}
    found = where(candidate)
    return {name: found[name] for name in ("node_id", "host", "limits", "known")}


def _standby(spec: RequestSpec, mode: str, placement: Placement, where: Where) -> Standby:
    planned, uuid = placement.standby, placement.instance_uuid
    assert planned is not None
    assert uuid is not None
    evacuation = evacuation_spec(spec, uuid).at_least(planned.size)
    if evacuation.instance_group is not None:
        # Where members are then, is known then.
        evacuation.instance_group.hosts = []
    evacuation.kept_apart = set()
    return Standby(
        instance_uuid=planned.place or uuid,
        of_place=planned.place is not None,
        place_node_id=where(placement.chosen)["node_id"],
        domains=planned.domains,
        mode=mode,
        size=planned.size,
        request=request_to_text(evacuation),
        reason=planned.reason,
        evacuates=planned.evacuates,
        project_id=spec.project_id,
        group=group_rule(spec, planned.host),
        member=uuid,
        **there(planned.host, where),
    )


def request_to_text(spec: RequestSpec) -> str:
    """Return the request to evacuate an instance as text."""
    return tagged_text(spec)


def request_from_text(text: str) -> RequestSpec:
    """Return the request of a text; raises ValueError."""
    found = value_of_text(text)
    if not isinstance(found, RequestSpec):
        raise ValueError("it is not a request")
    return found


def of_stored_request(uuid: str, text: str, work: Callable[[RequestSpec], T | None]) -> T | None:
    """Return work(spec) for the stored request of a protected instance, None if it is unreadable.

    uuid is that of the instance, or of the reserved place.
    """
    return stored_documents.read(
        lambda text: work(request_from_text(text)),
        text,
        f"The stored request of the standby of instance or place {uuid}",
        "the standby stays where it is and is not replaced. Migrate the instance once, which"
        " stores its request again; for a place, delete the reservation and create it again",
    )
