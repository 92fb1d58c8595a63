# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Nova's rows of instances and migrations as guests and moves. Pure."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from compute_agent.virt.driver import MIB_PER_GIB, Guest, Move, NodeName, Size
from inventory.fits import local_disk_mb
from inventory.instance_states import moving, released
from inventory.objects.amounts import taken_amounts
from inventory.objects.node_json import GUEST_TOPOLOGY, guest_topology_from_json
from inventory.objects.numa import InstanceNUMATopology

# The flavors of an instance: that of now, and those of a resize under way.
FLAVORS = ("cur", "old", "new")
Flavors = Mapping[str, Mapping[str, Any]]


class MoveContext(NamedTuple):
    """The cells of an instance at both ends of the migration with this number.

    has_devices says whether nova-compute has claimed devices at the destination.
    """

    migration_id: int
    old: InstanceNUMATopology
    new: InstanceNUMATopology
    has_devices: bool


def place(row: Any) -> NodeName | None:
    """Return where an instance, a row of inventory.nova.servers, takes room; None for nowhere."""
    if row.deleted or not (row.host and row.node) or released(row.vm_state, row.task_state):
        return None
    return NodeName(row.host, row.node)


def guest(row: Any, extra: Any) -> Guest:
    """Return an instance with its inventory.nova.servers.Extra, of the size of its flavor.

    Raises one of stored_documents.UNREADABLE for a document that cannot be read.
    """
    flavor = flavors(extra.flavor).get("cur", {})
    topology = extra.numa_topology
    return Guest(
        uuid=row.uuid.lower(),
        name=row.display_name or row.uuid,
        vcpus=row.vcpus or 0,
        memory_mb=row.memory_mb or 0,
        root_gb=0 if is_volume_booted(row) else row.root_gb or 0,
        ephemeral_gb=row.ephemeral_gb or 0,
        swap_mb=int(flavor.get("swap") or 0),
        vm_state=row.vm_state or "active",
        task_state=row.task_state,
        project_id=row.project_id,
        os_type=row.os_type,
        flavor_id=row.instance_type_id,
        flavor_name=flavor.get("name"),
        image_properties=dict(extra.image_properties),
        numa=guest_topology_from_json(topology) if topology else None,
    )


def as_requested(guest: Guest, extra: Any) -> Guest:
    """Return an instance with what it has in Placement, by amounts in its flavor's extra specs."""
    specs = flavors(extra.flavor).get("cur", {}).get("extra_specs") or {}
    taken = taken_amounts(guest.size, specs)
    if taken == guest.size:
        return guest
    vcpus, memory_mb, disk_mb = taken
    # Which of its disks are how large is not said.
    gb, mb = divmod(disk_mb, MIB_PER_GIB)
    return replace(guest, vcpus=vcpus, memory_mb=memory_mb, root_gb=0, ephemeral_gb=gb, swap_mb=mb)


def is_volume_booted(row: Any) -> bool:
    """Return whether the root disk of an instance is no local one: it names no image."""
    return bool(row.image_ref == "")


def flavors(text: str | None) -> Flavors:
    """Return the fields of an instance's flavors by their part in it.

    Raises one of stored_documents.UNREADABLE for one whose size or id cannot be used.
    """
    found = json.loads(text) if text else {}
    known = {part: found[part]["nova_object.data"] for part in FLAVORS if found.get(part)}
    for each in known.values():
        _size(each)
        hash(each.get("id"))
    return known


def context(text: str | None) -> MoveContext | None:
    """Return what an instance keeps of its migration; raises one of stored_documents.UNREADABLE."""
    found = json.loads(text) if text else None
    if found is None:
        return None
    data = found["nova_object.data"]
    old, new = (_cells(data.get(f"{end}_numa_topology")) for end in ("old", "new"))
    devices = data.get("new_pci_devices")
    has_devices = bool(devices and devices["nova_object.data"]["objects"])
    return MoveContext(data["migration_id"], old, new, has_devices)


def _cells(value: Any) -> InstanceNUMATopology:
    # One that uses no cell, unlike one of which nothing is known.
    return InstanceNUMATopology() if value is None else GUEST_TOPOLOGY.read(value)


def move(
    row: Any,
    instance: Any,
    known: Flavors,
    kept: MoveContext | None = None,
    by_flavor: bool = False,
) -> Move | None:
    """Return a migration with its instance's row, flavors and context; None if it takes no room.

    A context may be left of an earlier migration, or not be written yet. With by_flavor amounts in
    extra specs do not count, as in Nova's rows of nodes.
    """
    if instance.deleted or not moving(instance.vm_state, instance.task_state):
        return None
    found = kept if kept and kept.migration_id == row.id else None
    by_id = {each.get("id"): each for each in known.values()}
    present = known.get("cur", {})
    is_local = not is_volume_booted(instance)

    def size(number: int | None, part: str) -> Size:
        flavor = by_id.get(number) or known.get(part) or present
        return _size(flavor, is_local, by_flavor)

    return Move(
        instance_uuid=row.instance_uuid.lower(),
        source=_end(row.source_compute, row.source_node),
        destination=_end(row.dest_compute, row.dest_node),
        old=size(row.old_instance_type_id, "old"),
        new=size(row.new_instance_type_id, "new"),
        old_numa=found.old if found else None,
        new_numa=found.new if found else None,
        has_devices=bool(found and found.has_devices),
    )


def _size(flavor: Mapping[str, Any], is_local: bool = True, by_flavor: bool = False) -> Size:
    """Return the size of a flavor; without a local root disk, and without amounts in extra specs.

    Raises one of stored_documents.UNREADABLE for fields of other types.
    """
    names = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap")
    vcpus, memory_mb, root_gb, *others = (int(flavor.get(name) or 0) for name in names)
    found = Size(vcpus, memory_mb, local_disk_mb(root_gb * is_local, *others))
    specs = {} if by_flavor else flavor.get("extra_specs") or {}
    return Size(*taken_amounts(found, specs))


def _end(host: str | None, node: str | None) -> NodeName | None:
    return NodeName(host, node) if host and node else None
