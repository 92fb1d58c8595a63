# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Build the rows of compute_nodes and instances from what an audit found. Pure."""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from compute_agent.audit import usage
from compute_agent.audit.moves import Room, room_for_migrations
from compute_agent.audit.pci_devices import free_pools
from compute_agent.device_spec import DeviceSpec
from compute_agent.virt.driver import Guest, Move, NodeFacts, NodeName, Size
from inventory.claims.numa_pci_usage import cells_taken, devices_taken
from inventory.objects import node_json
from inventory.objects.field_types import without_surrogates
from inventory.objects.pci_and_network import PciDevicePool

# Of the columns for names. Those of guests may be longer.
MAX_LENGTH = 255


@dataclass(frozen=True, slots=True)
class Settings:
    """Options that hold for every node; ratios are columns of compute_nodes."""

    host_ip: str
    reserved: Size = field(default_factory=Size)
    ratios: Mapping[str, float | None] = field(default_factory=dict)
    device_specs: tuple[DeviceSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class PollResult:
    """All that the rows of a node are built from.

    guests come from the hypervisor; managed and moves, the newest first, from the database.
    """

    name: NodeName
    uuid: str
    service_id: int
    settings: Settings
    facts: NodeFacts
    guests: list[Guest]
    metrics: list[dict[str, Any]] = field(default_factory=list)
    managed: list[Guest] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class NodeRows:
    """The row of a node and those of the instances that are not managed by others."""

    polled: PollResult
    row: dict[str, Any]
    instances: list[dict[str, Any]]


def build_rows(
    found: PollResult,
    claims: Collection[Any] = (),
    overhead: Callable[[Guest], Size] = lambda _: Size(),
    places: Collection[Size] = (),
) -> NodeRows:
    """Return the rows of a node and its instances.

    claims are rows of pending claims on the node; overhead is what a guest takes beyond its
    flavor; places are what reserved places hold. The figures equal those that claims and releases
    one by one have led to.
    """
    guests = usage.each_once(found.guests)
    # One that is resized in place takes that besides what is claimed.
    coming = {each.instance_uuid.lower() for each in claims if not each.in_place}
    here = usage.held_by_claims(usage.on_node(guests, found.managed), guests, coming)
    moving = _rooms(found, here, claims)
    taken = [found.settings.reserved, *(each.size for each in moving)]
    held = [Size(each.vcpus, each.memory_mb, each.disk_mb) for each in claims]
    own = found.facts.settings
    stats = {**(own.stats if own else {}), **usage.stats(here)}
    if found.facts.booted is not None:
        # The time rather than the uptime, which would change the row at every audit.
        stats["booted"] = str(found.facts.booted)
    row = {
        "host": found.name.host,
        "hypervisor_hostname": found.name.node,
        "uuid": found.uuid,
        "service_id": found.service_id,
        "host_ip": found.settings.host_ip,
        **_capacity(found.facts),
        **usage.count(found.facts, here, taken, overhead, held, places),
        "stats": json.dumps(stats, sort_keys=True),
        **_documents(found, here, moving, claims),
        **found.settings.ratios,
    }
    return NodeRows(found, row, [_instance(guest) for guest in guests])


def _rooms(found: PollResult, here: list[Guest], claims: Collection[Any]) -> list[Room]:
    """Return what migrations take of a node besides its instances and claims."""
    by_uuid = {each.uuid: each for each in here}
    claimed = {each.instance_uuid.lower() for each in claims}
    return list(room_for_migrations(found.name, found.moves, by_uuid, claimed))


def _capacity(facts: NodeFacts) -> dict[str, Any]:
    least = facts.disk_available_least
    return {
        **_storable(facts, "vcpus", "memory_mb", "local_gb"),
        # Below zero where thin images may outgrow the disk.
        "disk_available_least": None if least is None else usage.storable(least),
        "hypervisor_type": facts.hypervisor_type,
        "hypervisor_version": facts.hypervisor_version,
        "cpu_info": facts.cpu_info,
        "supported_instances": json.dumps(facts.supported_instances),
    }


def _documents(
    found: PollResult, here: list[Guest], moving: list[Room], claims: Collection[Any]
) -> dict[str, Any]:
    cells = usage.cells(found.facts.numa, [*here, *moving])
    if cells is not None:
        cells = cells_taken(cells, claims)
    return {
        "numa_topology": None if cells is None else node_json.numa_topology_to_json(cells),
        "pci_stats": node_json.pci_pools_to_json(_free_pools(found, here, claims)),
        "metrics": json.dumps(found.metrics),
    }


def _free_pools(
    found: PollResult, here: list[Guest], claims: Collection[Any]
) -> list[PciDevicePool]:
    if found.facts.settings is not None:
        coming = (each for each in found.moves if each.destination == found.name)
        # What these have is missing in the pools already.
        uuids = {each.instance_uuid for each in coming if each.has_devices}
        waiting = [each for each in claims if each.instance_uuid.lower() not in uuids]
        return devices_taken(list(found.facts.settings.pci_pools), waiting)
    taken = {address for each in here for address in each.pci_addresses}
    names = {name for each in here for name in each.device_names}
    pools = free_pools(found.settings.device_specs, found.facts.pci_devices, taken, names)
    return devices_taken(pools, claims)


def _instance(guest: Guest) -> dict[str, Any]:
    properties = guest.image_properties
    return {
        "uuid": guest.uuid,
        "display_name": _shortened(guest.name),
        "project_id": _shortened(guest.project_id),
        **_storable(guest, "vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap_mb"),
        "vm_state": guest.vm_state,
        "task_state": guest.task_state,
        "os_type": _shortened(guest.os_type),
        "flavor_id": guest.flavor_id,
        "flavor_name": _shortened(guest.flavor_name),
        # Equal properties make equal texts, which readers parse once.
        "image_properties": None if properties is None else json.dumps(properties, sort_keys=True),
    }


def _storable(sized: NodeFacts | Guest, *names: str) -> dict[str, int]:
    return {name: usage.storable(getattr(sized, name)) for name in names}


def _shortened(name: str | None) -> str | None:
    return name and without_surrogates(name[:MAX_LENGTH])
