# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Plan where the instances of hosts that are to be emptied would go.

The request of an instance is rebuilt from what is stored of it, its claim and its server group.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from inventory.claims.types import ALTERNATE, PENDING
from inventory.objects.instance_group import AFFINITY, InstanceGroup
from inventory.objects.node_json import guest_topology_from_json, pci_pools_from_json
from inventory.objects.pci_and_network import InstancePCIRequest, InstancePCIRequests
from scheduler.analysis.capacity import Simulator
from scheduler.analysis.diagnosis import count_first_refusals, refusals
from scheduler.decision.pipeline import Request
from scheduler.decision.types import Refusal
from scheduler.hosts import aggregate_metadata
from scheduler.hosts.host_state import Candidate
from scheduler.hosts.table import HostTable
from scheduler.objects.flavor_and_image import Flavor, ImageMeta, ImageMetaProps
from scheduler.objects.instance import Instance
from scheduler.objects.request_spec import RequestSpec

# The facts that are known of every instance.
SIZE = ["vCPUs", "memory", "disk"]
# Tags without which a request means other devices: a whole network card is asked for by name.
_DEVICE_TAGS = ("dev_type", "remote_managed", "physical_network")
# How many of the hosts that refuse an instance for the fewest reasons are named.
NEAREST = 3


class InstanceRows(NamedTuple):
    """What the database has about instances, by uuid: their rows and server groups.

    claims and states of claims, on other nodes as well, are by (uuid, id of the node).
    """

    instances: Mapping[str, Any]
    claims: Mapping[tuple[str, int], Any]
    groups: Mapping[str, tuple[str, InstanceGroup | None]]
    states: Mapping[tuple[str, int], str]


@dataclass(slots=True)
class InstanceRequest:
    """An instance on the host of a row, with the facts that its request was rebuilt from.

    spec is None for an instance that is on new_host already, or claimed there.
    """

    uuid: str
    row: int
    host: str
    node: str
    spec: RequestSpec | None = None
    new_host: str | None = None
    decided_by: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def instances_to_move(
    hosts: HostTable, rows: Collection[int], found: InstanceRows
) -> Iterator[InstanceRequest]:
    """Yield the instances on the rows of hosts that are to be emptied."""
    for row in rows:
        host, node = hosts.get(row, "host"), hosts.get(row, "nodename")
        for uuid, instance in hosts.instances.on(row).items():
            final = _final_row(hosts, rows, uuid, found)
            if final == row:
                one = InstanceRequest(uuid, row, host, node)
                claim = found.claims.get((uuid, hosts.get(row, "node_id")))
                one.spec = _request(one, instance, claim, found)
                yield one
            # An instance that is also on another host to be emptied moves from there.
            elif final not in rows:
                yield InstanceRequest(uuid, row, host, node, new_host=hosts.get(final, "host"))


def keep_zone(hosts: HostTable, found: Iterable[InstanceRequest], default: str) -> None:
    """Make requests ask for the zone of the present host; default is that of hosts in none."""
    for each in found:
        if each.spec is not None:
            aggregates = hosts.get(each.row, "aggregates")
            zones = aggregate_metadata.split_values(aggregates, "availability_zone")
            each.spec.availability_zone = min(zones, default=default)
            each.decided_by.append("zone")


def _final_row(hosts: HostTable, rows: Collection[int], uuid: str, found: InstanceRows) -> int:
    """Return the row where an instance ends up: that of its pending claim, else where it was seen.

    Of two rows where it was seen, it is the one that is not to be emptied.
    """
    rank = {PENDING: 0, ALTERNATE: 2}

    def order(row: int) -> tuple[int, bool, int]:
        state = found.states.get((uuid, hosts.get(row, "node_id")), "")
        return rank.get(state, 1), row in rows, row

    return min(hosts.instances.rows_of(uuid), key=order)


def _request(
    one: InstanceRequest, instance: Instance, claim: Any, found: InstanceRows
) -> RequestSpec:
    """Return the rebuilt request of an instance, and note the facts that it has."""
    stored = found.instances.get(one.uuid)
    if claim is None:
        swap_mb = stored.swap_mb if stored else 0
        disk = (instance.root_gb or 0, instance.ephemeral_gb or 0, swap_mb)
    else:
        # A claim has the sum, without a root disk where a volume serves.
        disk = (claim.disk_mb // 1024, 0, claim.disk_mb % 1024)
    size = (instance.vcpus or 0, instance.memory_mb or 0, *disk)
    flavor = Flavor(*size, id=instance.instance_type_id, name=instance.flavor_name)
    spec = RequestSpec(flavor, instance_uuid=one.uuid, project_id=instance.project_id)
    one.decided_by.extend(SIZE)
    if instance.image_properties is not None:
        spec.image = ImageMeta(properties=ImageMetaProps(instance.image_properties))
        one.decided_by.append("image properties")
    if claim is not None and claim.numa:
        spec.numa_topology = guest_topology_from_json(claim.numa)
        one.decided_by.append("NUMA cells")
    if claim is not None and claim.pci:
        spec.pci_requests = InstancePCIRequests(one.uuid, _devices(claim.pci))
        one.decided_by.append("PCI devices")
    _add_group(spec, one, found)
    return spec


def _devices(claimed: str) -> list[InstancePCIRequest]:
    """Return requests for devices like the claimed ones."""
    found = []
    kind: dict[str, str | None]
    for pool in pci_pools_from_json(claimed):
        kind = {"vendor_id": pool.vendor_id, "product_id": pool.product_id}
        kind |= {name: pool.tags[name] for name in _DEVICE_TAGS if name in pool.tags}
        found.append(InstancePCIRequest(pool.count, [kind]))
    return found


def _add_group(spec: RequestSpec, one: InstanceRequest, found: InstanceRows) -> None:
    uuid, group = found.groups.get(one.uuid, (None, None))
    if group is not None:
        spec.instance_group = group
        one.decided_by.append(f"server group {group.name} ({group.policy})")
    elif uuid is not None:
        one.notes.append(f"in server group {uuid}, whose policy is not known here")


@dataclass(frozen=True, slots=True)
class Move:
    """Where an instance would go by its request; without a target, why no host takes it.

    only_together is set where affinity binds it to members of its server group that have to leave
    as well. limits count the hosts by the first filter that refuses it; nearest are all refusals of
    the few hosts with the fewest.
    """

    spec: RequestSpec
    target: Candidate | None = None
    limits: Sequence[tuple[str, int]] = ()
    nearest: Sequence[Refusal] = ()
    only_together: bool = False


def plan_drain(
    hosts: HostTable, specs: Iterable[RequestSpec], emptied: Iterable[str], simulator: Simulator
) -> list[Move]:
    """Return where each instance would go, the largest first, in the order in which they go.

    The largest fit on the fewest hosts; small ones fill the gaps. hosts is a working copy that is
    consumed; the hosts to be emptied, by their names, take nothing. Members of a server group see
    those that have moved before them and those that stay, not those that have still to move.
    """
    order = sorted(specs, key=_order)
    names = sorted(emptied)
    bound = [_is_bound(hosts, each, names, simulator) for each in order]
    moves = [_moved(hosts, each, names, simulator, number) for number, each in enumerate(order)]
    return [
        replace(each, only_together=each.target is not None and is_bound)
        for each, is_bound in zip(moves, bound, strict=True)
    ]


def _order(spec: RequestSpec) -> tuple[int, int, int, str]:
    """Return a sort key: the largest first, by memory, of which hosts over-commit the least."""
    return -spec.memory_mb, -spec.vcpus, -spec.disk_mb, spec.instance_uuid or ""


def _is_bound(
    hosts: HostTable, moving: RequestSpec, emptied: list[str], simulator: Simulator
) -> bool:
    """Return whether affinity to members on the old hosts would refuse it as the first to move."""
    group, uuid = moving.instance_group, moving.instance_uuid
    if group is None or group.policy != AFFINITY:
        return False
    spec = moving.for_instance(uuid)
    spec.ignore_hosts = emptied
    spec.instance_group = _located(hosts, group, but=uuid)
    decision = simulator.decide(hosts.working_copy(), Request(spec, [uuid]))
    return not decision.placements


def _moved(
    hosts: HostTable, moving: RequestSpec, emptied: list[str], simulator: Simulator, number: int
) -> Move:
    spec = moving.for_instance(moving.instance_uuid)
    spec.ignore_hosts = emptied
    if spec.instance_group is not None:
        spec.instance_group = _located(hosts, spec.instance_group, emptied=emptied)
    decision = simulator.decide(hosts, Request(spec, [spec.instance_uuid], seed=number))
    simulator.progress(number + 1)
    if decision.placements:
        return Move(moving, decision.placements[0].chosen)
    found = [each for each in refusals(hosts, spec, simulator.plan).values() if each]
    found.sort(key=lambda each: (len(each), each[0].host, each[0].nodename))
    nearest = [each for refused in found[:NEAREST] for each in refused]
    return Move(moving, limits=count_first_refusals(found), nearest=nearest)


def _located(
    hosts: HostTable, group: InstanceGroup, emptied: Collection[str] = (), but: str | None = None
) -> InstanceGroup:
    """Return a group with the present hosts of its members, without some hosts or one member."""
    rows = hosts.instances.rows_of_each([each for each in group.members if each != but])
    names = {hosts.get(row, "host") for row in rows}
    found = group.with_hosts()
    found.hosts = sorted(names.difference(emptied))
    return found
