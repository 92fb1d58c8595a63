# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Choose the places of a reservation as schedulers choose hosts for instances, and hold them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from uuid import uuid4

from inventory.claims.places import ending_by
from inventory.claims.standbys import read_sums
from inventory.claims.types import ClaimLost, Identity
from inventory.errors import InUse, Malformed
from inventory.objects.aggregate import FAILURE_DOMAIN
from inventory.objects.reserved_place import ReservedPlace
from inventory.objects.standby import REQUIRED, DomainSums, Protection, changed
from inventory.operations import reservation_operations
from inventory.operations.reservation_operations import NewReservation
from scheduler.analysis.explain import Rehearsal
from scheduler.claims.claim_request import ClaimContext, ClaimSettings, build_claim_request
from scheduler.decision.pipeline import Request
from scheduler.decision.reserved_places import can_take
from scheduler.decision.standbys import FOUND
from scheduler.decision.types import Decision, Placement
from scheduler.drivers.filter_scheduler import FilterScheduler
from scheduler.hosts.failure_domains import in_any, named_domains
from scheduler.hosts.host_state import BARE_METAL
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec
from scheduler.operators.live_hosts import LiveHosts

# How places are kept apart: one for each host, or for each failure domain.
HOST = "host"
SPREADS = (HOST, FAILURE_DOMAIN)
# How often the places are chosen again since others took the room meanwhile.
_ATTEMPTS = 20


class NoRoom(Exception):
    """Not all places have a host; nothing is held. rehearsal is of the first one without.

    reason says so where that has a host, but no standby.
    """

    def __init__(self, found: int, number: int, rehearsal: Rehearsal, reason: str) -> None:
        super().__init__(f"there is room for {found} of {number} places")
        self.reason = reason if reason.startswith(FOUND) else None
        self.found = found
        self.rehearsal = rehearsal


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The places of a reservation; hosts is the table as the decisions have left it."""

    request: Request
    placements: Sequence[Placement]
    hosts: HostTable


def reserve(live: LiveHosts, new: NewReservation, spec: RequestSpec, number: int) -> str:
    """Hold places for instances of a request, all or none; return the uuid of the reservation.

    Raises NoRoom, OperationRefused and DatabaseUnavailable.
    """
    check_plain(spec)
    _check_schedulers(live)
    # Before the search, which may take a while.
    live.database.read(lambda each: reservation_operations.check(each, new))
    for attempt in range(_ATTEMPTS):
        if attempt:
            live.destinations.host_cache.refresh()
        chosen = _choose(live, new, spec, number, attempt)
        decision = Decision(tuple(chosen.placements))
        uuids = [each.instance_uuid or "" for each in chosen.placements]
        context = ClaimContext(Identity(None, "", uuids), chosen.request, decision, chosen.hosts)
        settings = ClaimSettings(lease=0, alternates=False)
        request = build_claim_request(context, settings, live.destinations.host_cache)
        try:
            create = partial(reservation_operations.create, new=new, request=request)
            return live.database.write_once(create)
        except ClaimLost as lost:
            live.destinations.host_cache.mark_stale(lost.nodes)
    raise InUse("other requests took the chosen hosts first, on every attempt: try again")


def check_plain(spec: RequestSpec) -> None:
    """Raise Malformed for a request that no place can be held for."""
    if not can_take(spec):
        what = "PCI devices" if spec.devices else "NUMA cells, pinned CPUs or huge pages"
        raise Malformed("flavor", f"{what} cannot be reserved, only vCPUs, memory and disk can")
    if spec.scheduler_hints or spec.instance_group:
        raise Malformed("hint", "reservations cannot have hints or server groups; see --spread")


def _check_schedulers(live: LiveHosts) -> None:
    """Raise InUse where schedulers by this configuration would not take places."""
    destinations = live.destinations
    if destinations.claimer is None:
        raise InUse("[claims] enabled is false: schedulers claim and hold no room")
    if type(destinations.driver).decide is not FilterScheduler.decide:
        name = type(destinations.driver).__name__
        raise InUse(f"[scheduler] driver: {name} does not look for reserved places")


def _choose(
    live: LiveHosts, new: NewReservation, spec: RequestSpec, number: int, seed: int
) -> _Chosen:
    """Return places on hosts, raise NoRoom if one has none.

    For a later start they are places of others that end by then, as long as there are any, unless
    they need standbys: those would be held for others until then.
    """
    spread, start, ending = new.spread, new.starts_at, list[ReservedPlace]()
    protection = Protection(REQUIRED, live.database.read(read_sums)) if new.failover else None
    if start is not None and not new.failover:
        ending = live.database.read(lambda each: ending_by(each, start))
    uuids = [str(uuid4()) for _ in range(number)]
    driver, hosts = live.destinations.driver, live.detached_table(spec)
    copy, placements = hosts.working_copy(), list[Placement]()
    # All in one go, unless each place bounds where the next ones may be.
    batches = [uuids] if spread is None else [[uuid] for uuid in uuids]
    ignored: set[str] = set(spec.ignore_hosts or ())
    request = Request(spec, uuids, seed=seed)
    for batch in batches:
        before = copy.detached() if spread else hosts
        asked = replace(spec, instance_uuid=batch[0], ignore_hosts=sorted(ignored) or None)
        request = Request(asked, batch, seed=seed, places=ending, protection=protection)
        decision = driver.decide(copy, request)
        if decision.shortage is not None or len(decision.placements) < len(batch):
            index, why = 0, ""
            if decision.shortage:
                index, why = decision.shortage.index, decision.shortage.reason
            rehearsal = Rehearsal(decision, before, request, driver)
            raise NoRoom(len(placements) + index, number, rehearsal, why)
        placements += decision.placements
        if protection is not None:
            protection = replace(protection, sums=_with(hosts, protection.sums, decision))
        followed = {each.place for each in decision.placements}
        ending = [each for each in ending if each.uuid not in followed]
        if spread:
            ignored |= _apart(hosts, decision.placements[0].chosen.row, spread)
    _check_whole_hosts(hosts, placements)
    return _Chosen(request, placements, copy)


def _with(
    hosts: HostTable, sums: Mapping[int, DomainSums], decision: Decision
) -> dict[int, DomainSums]:
    """Return what nodes hold for standbys with those of a decision."""
    found = dict(sums)
    for each in decision.placements:
        if each.standby is not None and each.standby.host is not None:
            node_id, planned = hosts.get(each.standby.host.row, "node_id"), each.standby
            found[node_id] = changed(found.get(node_id, {}), planned.domains, planned.size)
    return found


def _apart(hosts: HostTable, row: int, spread: str) -> set[str]:
    """Return the hosts that get no further place after one on the host of a row."""
    host: str = hosts.get(row, "host")
    names = named_domains(hosts.get(row, "aggregates"))
    if spread == HOST or not names:
        return {host}
    rows = in_any(hosts, names).nonzero()[0].tolist()
    return {host, *(hosts.get(each, "host") for each in rows)}


def _check_whole_hosts(hosts: HostTable, placements: Sequence[Placement]) -> None:
    get: Callable[[int, str], str] = hosts.get
    if any(get(each.chosen.row, "hypervisor_type") == BARE_METAL for each in placements):
        raise Malformed(
            "flavor", "bare-metal hosts cannot be reserved, since each instance gets a whole host"
        )
