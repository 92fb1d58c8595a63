# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What an instance that is resized on its own node holds there besides what its guest has. Pure.

Until the resize is confirmed or reverted an instance holds the cells and devices of both flavors.
The guest has those of one; the claim of the other one holds the rest. Such a claim is a leaving one
without an end of its lease.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from compute_agent.audit.pci_devices import free_pools
from compute_agent.audit.row_builder import PollResult
from compute_agent.virt.driver import Guest
from inventory.claims.numa_pci_usage import devices_between, devices_of, topology_of
from inventory.claims.types import CONFIRMED, LEAVING, PENDING
from inventory.objects.node_json import guest_topology_to_json, pci_pools_to_json
from inventory.objects.numa import InstanceNUMATopology

# The resolution of SQLite's clock.
TICK = timedelta(milliseconds=1)
# KiB of the largest pages that a kernel has for everybody.
_ORDINARY = 64


@dataclass(slots=True)
class ResizedClaims:
    """What becomes of the claims of resized instances: rows of allocations, and ids of those.

    kept hold what the guest does not have; of those with the ids returned the guest has again what
    they hold; over hold nothing any more; unfulfilled are pending claims of flavors that the guest
    has not yet.
    """

    kept: list[Any] = field(default_factory=list)
    returned: set[int] = field(default_factory=set)
    over: set[int] = field(default_factory=set)
    unfulfilled: set[int] = field(default_factory=set)

    @property
    def ids(self) -> set[int]:
        """The ids of the claims about which nothing else has to be found out."""
        return {row.id for row in self.kept} | self.returned | self.over


def settle(found: PollResult, rows: Iterable[Any]) -> ResizedClaims:
    """Return what becomes of the claims on a node whose instances are, or were, resized there."""
    resized = _moving(found, staying=True)
    guests = {each.uuid.lower(): each for each in found.guests}
    claims: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        if row.state == CONFIRMED or is_kept(row) or (row.state == PENDING and row.in_place):
            claims[row.instance_uuid.lower()].append(row)
    result = ResizedClaims()
    for uuid, mine in claims.items():
        if uuid in resized or any(map(is_kept, mine)):
            _settle(result, mine, guests.get(uuid), uuid in resized)
    return result


def unclaimed(
    found: PollResult, rows: Iterable[Any], node_id: int, now: datetime
) -> list[dict[str, Any]]:
    """Return new confirmed claims of guests that are to be resized on their node, as columns.

    They are those without a claim of what they have, since they were there before claims were made.
    Claims of the other flavors have to be younger than these.
    """
    if found.facts.settings is not None:
        return []
    coming = {row.instance_uuid.lower(): row for row in rows if row.state == PENDING}
    coming = {uuid: row for uuid, row in coming.items() if row.in_place}
    claimed = {row.instance_uuid.lower() for row in rows if row.state == CONFIRMED or is_kept(row)}
    resized = (_moving(found, staying=True) | coming.keys()) - claimed
    place = {"compute_node_id": node_id, "host": found.name.host, "node": found.name.node}
    new = []
    for guest in found.guests:
        row = coming.get(guest.uuid.lower())
        if guest.uuid.lower() not in resized or (row and _fulfils(guest, row)):
            continue
        if held := _held(found, guest):
            before = min(now, row.created_at - TICK) if row else now
            state = {"state": CONFIRMED, "slot": node_id, "created_at": before}
            new.append({**place, **state, **held})
    return new


def arriving(found: PollResult) -> set[str]:
    """Return the instances, in lower case, that a migration under way brings to a node."""
    return _moving(found, staying=False)


def is_kept(row: Any) -> bool:
    """Return whether a claim is that of a flavor which the guest of a resize does not have."""
    return bool(row.state == LEAVING and row.expires_at is None)


def lacking(found: PollResult, claims: Iterable[Any]) -> set[int]:
    """Return the ids of claims in place of what the guests have not yet.

    A resize may change nothing but that, which the size of a guest does not show. They have to have
    as many CPUs, pages and devices, not the same ones: Nova's compute service chooses for itself.
    Which devices guests have only the hypervisor tells.
    """
    guests = {each.uuid.lower(): each for each in found.guests}
    return {
        row.id
        for row in claims
        if row.in_place and row.state != CONFIRMED
        if (guest := guests.get(row.instance_uuid.lower()))
        and _lacks(guest, row, tells_devices=found.facts.settings is None)
    }


def cells_of(found: PollResult, rows: Iterable[Any]) -> dict[int, InstanceNUMATopology]:
    """Return where the guests of claims are pinned, by the ids of the claims that say otherwise."""
    guests = {each.uuid.lower(): each for each in found.guests}
    return {
        row.id: guest.numa
        for row in rows
        if row.numa and (guest := guests.get(row.instance_uuid.lower())) and guest.numa
        if (pins := _pins(guest.numa)) and pins != _pins(topology_of(row))
    }


def _fulfils(guest: Guest, row: Any) -> bool:
    size = guest.size.vcpus, guest.size.memory_mb
    is_its_own = row.instance_uuid.lower() == guest.uuid.lower()
    return is_its_own and (row.vcpus, row.memory_mb) == size and not _lacks(guest, row)


def _held(found: PollResult, guest: Guest) -> dict[str, Any]:
    """Return the columns of a claim of what a guest has, none if it has no CPUs nor devices."""
    devices = found.settings.device_specs, found.facts.pci_devices
    free = free_pools(*devices, guest.pci_addresses, guest.device_names)
    pools = devices_between(free_pools(*devices, ()), free)
    numa = guest.numa if guest.numa and guest.numa.cells else None
    if not (numa or pools):
        return {}
    return {
        "instance_uuid": guest.uuid,
        **guest.size._asdict(),
        "root_gb": guest.root_gb,
        "ephemeral_gb": guest.ephemeral_gb,
        "numa": numa and guest_topology_to_json(numa),
        "pci": pci_pools_to_json(pools) if pools else None,
    }


def _moving(found: PollResult, staying: bool) -> set[str]:
    """Return the instances that move to a node; staying: from this node itself."""
    # Nova's own rows have the cells and devices of both ends.
    if found.facts.settings is not None:
        return set()
    newest: dict[str, Any] = {}
    for move in found.moves:
        newest.setdefault(move.instance_uuid.lower(), move)
    return {
        uuid
        for uuid, move in newest.items()
        if move.destination == found.name and (not staying or move.source == found.name)
    }


def _settle(
    result: ResizedClaims, claims: Sequence[Any], guest: Guest | None, is_resized: bool
) -> None:
    """Add what becomes of the claims of one instance."""
    if guest is None:
        # One that is being resized comes back.
        for row in filter(is_kept, claims):
            result.kept.append(row) if is_resized else result.over.add(row.id)
        return
    present = _present(claims, guest)
    if present is not None and is_kept(present):
        result.returned.add(present.id)
    for row in claims:
        if row is present:
            continue
        if row.state == PENDING:
            if is_resized and present is not None:
                result.unfulfilled.add(row.id)
        elif is_resized and (row.numa or row.pci):
            result.kept.append(row)
        elif is_kept(row) or (present is not None and is_kept(present)):
            result.over.add(row.id)


def _present(claims: Collection[Any], guest: Guest) -> Any | None:
    """Return the claim of what a guest has; the CPUs that it is pinned to tell best."""
    pins = _pins(guest.numa or InstanceNUMATopology())
    in_order = sorted(claims, key=lambda row: (row.state == LEAVING, row.state != PENDING, -row.id))
    for row in in_order if pins else ():
        if row.numa and row.state != PENDING and pins == _pins(topology_of(row)):
            return row
    return next((row for row in in_order if _fulfils(guest, row)), None)


def _lacks(guest: Guest, claim: Any, tells_devices: bool = True) -> bool:
    """Return whether a guest has fewer pinned CPUs, huge pages or devices than a claim."""
    if (claimed := topology_of(claim)) is not None:
        has = _own(guest.numa or InstanceNUMATopology())
        if not _own(claimed) <= has:
            return True
    number = sum(pool.count for pool in devices_of(claim))
    return tells_devices and number > len(guest.pci_addresses) + len(guest.device_names)


def _own(numa: InstanceNUMATopology) -> Counter[str]:
    """Return how many CPUs are pinned, and how many MiB are in huge pages by their size."""
    found = Counter(cpus=sum(len(cell.pcpuset) for cell in numa.cells))
    for cell in numa.cells:
        if cell.pagesize and cell.pagesize > _ORDINARY:
            found[f"{cell.pagesize} KiB"] += cell.memory
    return found


def _pins(numa: InstanceNUMATopology | None) -> set[int]:
    """Return the CPUs of the host that a guest has for itself."""
    cells = numa.cells if numa is not None else ()
    return {cpu for cell in cells for cpu in (cell.cpu_pinning or {}).values()}
