# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What an audit found of a node, as the rows that say so.

The rows are a pure function of what was found: equal findings make equal rows, in any process.
"""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from compute_agent import usage
from compute_agent.moves import Move, kept_room
from compute_agent.pci_devices import DeviceSpecs
from compute_agent.virt.driver import Guest, NodeFacts, NodeName, Size
from inventory.claimed_documents import Taking, cells_taken, devices_taken
from scheduler.objects import documents

# What names have room for. Nobody checks how long those are that come with a guest.
LONGEST = 255


@dataclass(frozen=True, slots=True)
class Settings:
    """What the configuration says of every node; ratios are columns of compute_nodes."""

    host_ip: str
    reserved: Size = field(default_factory=Size)
    ratios: Mapping[str, float | None] = field(default_factory=dict)
    devices: DeviceSpecs = field(default_factory=DeviceSpecs)


@dataclass(frozen=True, slots=True)
class Findings:
    """All that the rows of a node are made of.

    guests are those of the hypervisor, managed and moves, the newest first, what the database says
    besides.
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

    def beside(self, managed: list[Guest], moves: list[Move]) -> "Findings":
        """Return the same with what the database says."""
        return replace(self, managed=managed, moves=moves)


class Claim(Taking, Protocol):
    """What is held for an instance that is not there yet."""

    @property
    def instance_uuid(self) -> str: ...

    @property
    def in_place(self) -> bool: ...

    @property
    def vcpus(self) -> int: ...

    @property
    def memory_mb(self) -> int: ...

    @property
    def disk_mb(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Account:
    """The row of a node and those of the instances that nobody else keeps rows of."""

    findings: Findings
    row: dict[str, Any]
    instances: list[dict[str, Any]]


def account(
    found: Findings,
    claims: Collection[Claim] = (),
    overhead: Callable[[Guest], Size] = lambda _: Size(),
) -> Account:
    """Return the rows that say what was found.

    claims are those on the node that count besides; overhead is what a guest takes beyond its
    flavor. The figures are those that claiming and giving back one by one have led to.
    """
    guests = usage.each_once(found.guests)
    here = _here(found, guests, claims)
    held = [Size(each.vcpus, each.memory_mb, each.disk_mb) for each in claims]
    counted = usage.count(found.facts, here, _more(found, here, claims), overhead, held)
    stats = counted.stats
    if found.facts.booted is not None:
        # The moment rather than how long ago: that would be news at every audit.
        stats["booted"] = str(found.facts.booted)
    row = {
        "host": found.name.host,
        "hypervisor_hostname": found.name.node,
        "uuid": found.uuid,
        "service_id": found.service_id,
        "host_ip": found.settings.host_ip,
        **_capacity(found.facts),
        **{name: getattr(counted, name) for name in usage.Usage.__slots__},
        "stats": json.dumps(stats, sort_keys=True),
        **_documents(found, here, claims),
        **found.settings.ratios,
    }
    return Account(found, row, [_instance(guest) for guest in guests])


def _here(found: Findings, guests: list[Guest], claims: Collection[Claim]) -> list[Guest]:
    """Return the instances of a node, each with what it takes itself."""
    # One that is resized where it is takes that besides what is claimed.
    coming = {each.instance_uuid.lower() for each in claims if not each.in_place}
    return usage.held_by_claims(usage.on_node(guests, found.managed), guests, coming)


def _more(found: Findings, here: list[Guest], claims: Collection[Claim]) -> list[Size]:
    """Return what is taken of a node besides its instances and what claims hold."""
    by_uuid = {each.uuid: each for each in here}
    claimed = {each.instance_uuid.lower() for each in claims}
    return [found.settings.reserved, *kept_room(found.name, found.moves, by_uuid, claimed)]


def _capacity(facts: NodeFacts) -> dict[str, Any]:
    least = facts.disk_available_least
    return {
        "vcpus": usage.storable(facts.vcpus),
        "memory_mb": usage.storable(facts.memory_mb),
        "local_gb": usage.storable(facts.local_gb),
        # Below zero by as much as thin images may grow, which is what their makers say.
        "disk_available_least": None if least is None else usage.storable(least),
        "hypervisor_type": facts.hypervisor_type,
        "hypervisor_version": facts.hypervisor_version,
        "cpu_info": facts.cpu_info,
        "supported_instances": json.dumps(facts.supported_instances),
    }


def _documents(found: Findings, here: list[Guest], claims: Collection[Claim]) -> dict[str, Any]:
    cells = usage.cells(found.facts.numa, here)
    if cells is not None:
        cells = cells_taken(cells, claims)
    taken = {address for each in here for address in each.pci_addresses}
    pools = devices_taken(found.settings.devices.pools(found.facts.pci_devices, taken), claims)
    return {
        "numa_topology": None if cells is None else documents.numa_topology_to_json(cells),
        "pci_stats": documents.pci_pools_to_json(pools),
        "metrics": json.dumps(found.metrics),
    }


def _instance(guest: Guest) -> dict[str, Any]:
    properties = guest.image_properties
    return {
        "uuid": guest.uuid,
        "display_name": _fitting(guest.name),
        "project_id": _fitting(guest.project_id),
        "vcpus": usage.storable(guest.vcpus),
        "memory_mb": usage.storable(guest.memory_mb),
        "root_gb": usage.storable(guest.root_gb),
        "ephemeral_gb": usage.storable(guest.ephemeral_gb),
        "swap_mb": usage.storable(guest.swap_mb),
        "vm_state": guest.vm_state,
        "task_state": guest.task_state,
        "os_type": _fitting(guest.os_type),
        "flavor_id": guest.flavor_id,
        "flavor_name": _fitting(guest.flavor_name),
        # Equal properties make equal texts, which readers parse once.
        "image_properties": None if properties is None else json.dumps(properties, sort_keys=True),
    }


def _fitting(name: str | None) -> str | None:
    return name and name[:LONGEST]
