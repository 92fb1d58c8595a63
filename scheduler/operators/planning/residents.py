# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The residents of hosts, with requests rebuilt from what is stored of them.

That is their rows, their claims and their server groups.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from inventory.claims.numa_pci_usage import devices_of, topology_of
from inventory.claims.types import ALTERNATE, PENDING
from inventory.objects.amounts import NOTHING, Amounts, amounts_of
from inventory.objects.instance_group import ANTI_AFFINITY, InstanceGroup
from inventory.objects.pci_and_network import InstancePCIRequest, InstancePCIRequests
from scheduler.hosts import aggregate_metadata
from scheduler.hosts.columns import Mask
from scheduler.hosts.host_state import Consumption
from scheduler.hosts.row_index import count_members
from scheduler.hosts.table import HostTable
from scheduler.objects.flavor_and_image import Flavor, ImageMeta, ImageMetaProps
from scheduler.objects.instance import Instance
from scheduler.objects.request_spec import RequestSpec
from scheduler.operators.planning.types import (
    COLD,
    HOST_IS_DOWN,
    LIVE,
    MOVING,
    NOT_BUILT,
    NOT_EVACUATED,
    HeldStandby,
    Resident,
)

# The facts that are known of every instance.
SIZE = ["vCPUs", "memory", "disk"]
# Tags without which a request means other devices: a whole network card is asked for by name.
_DEVICE_TAGS = ("dev_type", "remote_managed", "physical_network")
# How instances move by their state. Others cannot, unless their host is down.
_KINDS = {"active": LIVE, "paused": LIVE, "stopped": COLD}
# States in which an instance may be migrated cold, as one with devices is, and those in which it
# may be evacuated, whatever its task: as for resize() and evacuate() of Nova's API.
_COLD_STATES, _EVACUATED_STATES = ("active", "stopped"), ("active", "stopped", "error")
# Tasks after which there is no instance: an evacuation would bring it back.
_DELETING = ("deleting", "soft-deleting")


class InstanceRows(NamedTuple):
    """What the database has about instances, by uuid: their rows and server groups.

    claims and states of claims, on other nodes as well, are by (uuid, id of the node). So are
    places, what reserved places are going to hold again when the instances leave, and standbys,
    the rows of those of them and of their places.
    """

    instances: Mapping[str, Any]
    claims: Mapping[tuple[str, int], Any]
    groups: Mapping[str, tuple[str, InstanceGroup | None]]
    states: Mapping[tuple[str, int], str]
    places: Mapping[tuple[str, int], Amounts] = MappingProxyType({})
    standbys: Mapping[tuple[str, int], Any] = MappingProxyType({})


def residents_of(hosts: HostTable, down: Mask, found: InstanceRows) -> Iterator[Resident]:
    """Yield the instances on all hosts; down are the rows of those whose service is.

    Those on hosts that are down stay there until Fleet.allow_evacuation(). Alternates are none. An
    instance that is moving is on the host where it ends up.
    """
    row_of = {hosts.get(row, "node_id"): row for row in hosts.rows()} if found.standbys else {}
    for row in hosts.rows():
        node_id = hosts.get(row, "node_id")
        for uuid, instance in hosts.instances.on(row).items():
            state = found.states.get((uuid, node_id))
            rows = _rows_of(hosts, uuid, found)
            # The last of them is where it ends up.
            if rows[-1:] != [row]:
                continue
            claim = found.claims.get((uuid, node_id))
            one = Resident(instance, row, *_request(instance, claim, found))
            _add_details(one, claim, found)
            one.place = found.places.get((uuid, node_id), NOTHING)
            held = found.standbys.get((uuid, node_id))
            if held is not None and held.compute_node_id in row_of:
                domains = tuple(held.domains.split(","))
                at = row_of[held.compute_node_id]
                one.standby = HeldStandby(at, domains, amounts_of(held), bool(held.of_place))
            one.kind, one.fixed = _how(one, len(rows) > 1, bool(down[row]), state)
            yield one


def keep_zone(hosts: HostTable, residents: Iterable[Resident], default: str) -> None:
    """Make requests ask for the zone of the present host; default is that of hosts in none."""
    for each in residents:
        aggregates = hosts.get(each.row, "aggregates")
        zones = aggregate_metadata.split_values(aggregates, "availability_zone")
        each.spec.availability_zone = min(zones, default=default)
        each.decided_by.append("zone")


def _rows_of(hosts: HostTable, uuid: str, found: InstanceRows) -> list[int]:
    """Return the rows of an instance, those of pending claims last; alternates are none."""
    state = {
        row: found.states.get((uuid, hosts.get(row, "node_id")))
        for row in sorted(hosts.instances.rows_of(uuid))
    }
    rows = [row for row in state if state[row] != ALTERNATE]
    return sorted(rows, key=lambda row: state[row] == PENDING)


def _how(
    one: Resident, is_moving: bool, is_down: bool, state: str | None
) -> tuple[str, str | None]:
    """Return how a resident moves, and why it cannot, or None."""
    instance = one.instance
    if is_moving:
        return LIVE, MOVING
    if state == PENDING or instance.vm_state == "building":
        return LIVE, NOT_BUILT
    vm_state = instance.vm_state or "active"
    kind = _KINDS.get(vm_state)
    # The memory of devices cannot be copied.
    usual = COLD if kind is None or one.spec.devices else kind
    if is_down:
        return usual, HOST_IS_DOWN
    if instance.task_state:
        return usual, f"is busy ({instance.task_state})"
    if usual == COLD and kind and vm_state not in _COLD_STATES:
        return usual, f"is in state {vm_state} and has PCI devices"
    return usual, None if kind else f"is in state {vm_state}"


def evacuation_obstacle(one: Resident) -> str | None:
    """Return why a resident of a host that is down cannot be evacuated, None where it can."""
    if one.fixed in (MOVING, NOT_BUILT):
        return one.fixed
    if one.instance.task_state in _DELETING:
        return "is being deleted"
    vm_state = one.instance.vm_state or "active"
    return None if vm_state in _EVACUATED_STATES else f"is in state {vm_state}: {NOT_EVACUATED}"


def _request(
    instance: Instance, claim: Any, found: InstanceRows
) -> tuple[RequestSpec, Consumption]:
    """Return the rebuilt request of an instance, and what it takes where it is."""
    if claim is None:
        stored = found.instances.get(instance.uuid)
        swap_mb = stored.swap_mb if stored else 0
        disk = (instance.root_gb or 0, instance.ephemeral_gb or 0, swap_mb)
    else:
        # A claim has the sum, without a root disk where a volume serves.
        disk = (claim.disk_mb // 1024, 0, claim.disk_mb % 1024)
    size = (instance.vcpus or 0, instance.memory_mb or 0, *disk)
    flavor = Flavor(*size, id=instance.instance_type_id, name=instance.flavor_name)
    spec = RequestSpec(flavor, instance_uuid=instance.uuid, project_id=instance.project_id)
    cells = None if claim is None else topology_of(claim)
    devices = () if claim is None else devices_of(claim)
    taken = Consumption(spec.vcpus, spec.memory_mb, spec.disk_mb, cells, tuple(devices))
    return spec, taken


def _add_details(one: Resident, claim: Any, found: InstanceRows) -> None:
    """Add to a request what is known besides its size, and note it."""
    spec, instance, taken = one.spec, one.instance, one.taken
    one.decided_by.extend(SIZE)
    if instance.image_properties is not None:
        spec.image = ImageMeta(properties=ImageMetaProps(instance.image_properties))
        one.decided_by.append("image properties")
    if taken.cells is not None:
        # Which cells of which host it has is not asked for.
        spec.numa_topology = topology_of(claim)
        one.decided_by.append("NUMA cells")
    if taken.devices:
        spec.pci_requests = InstancePCIRequests(one.uuid, _devices(taken))
        one.decided_by.append("PCI devices")
    uuid, group = found.groups.get(one.uuid, (None, None))
    if group is not None:
        spec.instance_group = group
        one.decided_by.append(f"server group {group.name} ({group.policy})")
    elif uuid is not None:
        one.notes.append(f"in server group {uuid}, whose policy is not known here")


def _devices(taken: Consumption) -> list[InstancePCIRequest]:
    """Return requests for devices like those that are taken."""
    found = []
    kind: dict[str, str | None]
    for pool in taken.devices:
        kind = {"vendor_id": pool.vendor_id, "product_id": pool.product_id}
        kind |= {name: pool.tags[name] for name in _DEVICE_TAGS if name in pool.tags}
        found.append(InstancePCIRequest(pool.count, [kind]))
    return found


def located(spec: RequestSpec, hosts: HostTable) -> RequestSpec:
    """Return a request whose group, if any, has the other members and their hosts in a table."""
    if spec.instance_group is None:
        return spec
    found = spec.for_instance(spec.instance_uuid)
    group = found.instance_group
    assert group is not None
    group.members = [each for each in group.members if each != spec.instance_uuid]
    rows = hosts.instances.rows_of_each(group.members)
    group.hosts = sorted({hosts.get(row, "host") for row in rows})
    return found


def with_members(
    spec: RequestSpec, copy: HostTable, standbys: Mapping[str, int] = MappingProxyType({})
) -> RequestSpec:
    """Return a request located on a copy, which gets the members of its group on each row.

    standbys are the rows on which other members are going to be if their hosts die, from which
    members of a group that keeps apart keep apart as well.
    """
    spec = located(spec, copy)
    group = spec.instance_group
    if group is not None and group.policy == ANTI_AFFINITY:
        there = {(uuid, row) for uuid in group.members for row in copy.instances.rows_of(uuid)}
        there |= {(uuid, standbys[uuid]) for uuid in group.members if uuid in standbys}
        group.hosts = sorted(copy.get(row, "host") for _, row in there)
    copy.group_counts = count_members(copy, group) if group else None
    return spec
