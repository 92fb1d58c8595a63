# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The instances of hosts that are to be emptied, and what is known of what they ask for."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import sqlalchemy as sa

from inventory import allocations, group_memberships, instances, services
from inventory.names import nearest
from inventory.orders import ALTERNATE, PENDING
from inventory.refusals import Unknown
from inventory.server_groups import ServerGroupRecord
from scheduler.cli.current_hosts import CurrentHosts
from scheduler.decision import aggregate_metadata
from scheduler.decision.draining import Leaving
from scheduler.decision.host_table import HostTable
from scheduler.objects.documents import guest_topology_from_json, pci_pools_from_json
from scheduler.objects.flavor import Flavor
from scheduler.objects.image_meta import ImageMeta, ImageMetaProps
from scheduler.objects.instance import Instance
from scheduler.objects.instance_group import InstanceGroup
from scheduler.objects.pci import InstancePCIRequest, InstancePCIRequests, PciDevicePool
from scheduler.objects.request_spec import RequestSpec

# What is known of every instance.
SIZE = ["vCPUs", "memory", "disk"]
# Tags without which a request means other devices, as a whole network card is asked for by name.
_TELLING = ("dev_type", "remote_managed", "physical_network")


class Rows(NamedTuple):
    """What the database has about instances, by uuid: their rows and server groups.

    claims and their states, those on other nodes as well, are by uuid and the id of the node.
    """

    instances: Mapping[str, Any]
    claims: Mapping[tuple[str, int], Any]
    groups: Mapping[str, tuple[str, ServerGroupRecord | None]]
    states: Mapping[tuple[str, int], str]


@dataclass(slots=True)
class Known:
    """An instance that is to leave, and what it is decided by.

    leaving is None where there is nothing to decide: it is already another host that it is on.
    """

    uuid: str
    host: str
    node: str
    leaving: Leaving | None = None
    already: str | None = None
    decided_by: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def rows_of(hosts: HostTable, names: Collection[str]) -> list[int]:
    """Return the rows of hosts by their names, if need be in another letter case.

    Raises Unknown, with names that are like it.
    """
    known = {hosts.get(row, "host") for row in hosts.rows()}
    found: set[int] = set()
    for name in names:
        rows = hosts.rows_of_host(name) or hosts.rows_of_host(name, any_case=True)
        found.update(rows)
        if not rows:
            hint = nearest(name, known, "see 'host list'")
            raise Unknown(f"no host {name!r} has reported; {hint}")
    return sorted(found)


def _read(connection: sa.Connection, hosts: Collection[str], node_ids: Collection[int]) -> Rows:
    """Return what the database has about the instances on these hosts and nodes."""
    found = {row.uuid: row for row in instances.of_hosts(connection, hosts)}
    claimed, _ = allocations.on_nodes(connection, node_ids)
    claims = {(row.instance_uuid, row.compute_node_id): row for row in claimed}
    uuids = found.keys() | {uuid for uuid, _ in claims}
    groups = group_memberships.of_instances(connection, uuids)
    return Rows(found, claims, groups, allocations.states(connection, uuids))


def known(current: CurrentHosts, hosts: HostTable, rows: Collection[int]) -> list[Known]:
    """Return the instances on some rows, with what is known of them."""
    names = {hosts.get(row, "host") for row in rows}
    ids = [hosts.get(row, "node_id") for row in rows]
    found = current.database.read(lambda connection: _read(connection, names, ids))
    return list(_known(hosts, rows, found))


def hosts_down(current: CurrentHosts, names: Iterable[str], limit: float) -> list[str]:
    """Return which of some hosts are down; limit is that of services.is_up().

    Nobody can move a running instance away from such a host.
    """
    rows = current.database.read(lambda c: services.all_live(c, services.COMPUTE[0]))
    up = {row.host for row in rows if services.is_up(row, limit)}
    return sorted({*names} - up)


def keep_zone(hosts: HostTable, found: Iterable[Known], default: str) -> None:
    """Let instances ask for the zone that their host is in; default is that of hosts in none."""
    for each in found:
        if each.leaving is not None:
            aggregates = hosts.get(each.leaving.row, "aggregates")
            zones = aggregate_metadata.split_values(aggregates, "availability_zone")
            each.leaving.spec.availability_zone = min(zones, default=default)
            each.decided_by.append("zone")


def _known(hosts: HostTable, rows: Collection[int], found: Rows) -> Iterator[Known]:
    for row in rows:
        place = hosts.get(row, "host"), hosts.get(row, "nodename")
        for uuid, instance in hosts.residents.on(row).items():
            goal = _goal(hosts, rows, uuid, found)
            if goal == row:
                claim = found.claims.get((uuid, hosts.get(row, "node_id")))
                one = Known(uuid, *place)
                one.leaving = Leaving(_asked(one, instance, claim, found), row)
                yield one
            # Where that is to be emptied as well, it leaves from there.
            elif goal not in rows:
                yield Known(uuid, *place, already=hosts.get(goal, "host"))


def _goal(hosts: HostTable, rows: Collection[int], uuid: str, found: Rows) -> int:
    """Return the row on which an instance is in the end: where it is claimed for, else seen.

    Of two on which it is seen, that is the one which is not among the rows to be emptied.
    """
    rank = {PENDING: 0, ALTERNATE: 2}

    def order(row: int) -> tuple[int, bool, int]:
        state = found.states.get((uuid, hosts.get(row, "node_id")), "")
        return rank.get(state, 1), row in rows, row

    return min(hosts.residents.rows_of(uuid), key=order)


def _asked(one: Known, instance: Instance, claim: Any, found: Rows) -> RequestSpec:
    """Return what an instance asks for, and note by what that is known."""
    stored = found.instances.get(one.uuid)
    spec = RequestSpec(
        Flavor(
            instance.vcpus or 0,
            instance.memory_mb or 0,
            *_disk(instance, stored, claim),
            id=instance.instance_type_id,
            name=instance.flavor_name,
        ),
        instance_uuid=one.uuid,
        project_id=instance.project_id,
    )
    one.decided_by.extend(SIZE)
    _add_image(spec, one, instance)
    _add_claimed(spec, one, claim)
    _add_group(spec, one, found)
    return spec


def _disk(instance: Instance, stored: Any, claim: Any) -> tuple[int, int, int]:
    """Return the root and ephemeral disk in GB, and the swap in MB.

    A claim has the sum that was asked for, without a root disk where a volume serves.
    """
    if claim is not None:
        return claim.disk_mb // 1024, 0, claim.disk_mb % 1024
    return instance.root_gb or 0, instance.ephemeral_gb or 0, stored.swap_mb if stored else 0


def _add_image(spec: RequestSpec, one: Known, instance: Instance) -> None:
    if instance.image_properties is not None:
        spec.image = ImageMeta(properties=ImageMetaProps(instance.image_properties))
        one.decided_by.append("image properties")


def _add_claimed(spec: RequestSpec, one: Known, claim: Any) -> None:
    """Let it ask for the cells and devices that were claimed for it."""
    if claim is not None and claim.numa:
        spec.numa_topology = guest_topology_from_json(claim.numa)
        one.decided_by.append("NUMA cells")
    if claim is not None and claim.pci:
        pools = pci_pools_from_json(claim.pci)
        wanted = [InstancePCIRequest(each.count, [_kind(each)]) for each in pools]
        spec.pci_requests = InstancePCIRequests(one.uuid, wanted)
        one.decided_by.append("PCI devices")


def _kind(pool: PciDevicePool) -> dict[str, str | None]:
    """Return by what devices are asked for that are of the kind of these."""
    kind = {"vendor_id": pool.vendor_id, "product_id": pool.product_id}
    return kind | {name: pool.tags[name] for name in _TELLING if name in pool.tags}


def _add_group(spec: RequestSpec, one: Known, found: Rows) -> None:
    uuid, group = found.groups.get(one.uuid, (None, None))
    if group is not None:
        spec.instance_group = InstanceGroup(
            group.uuid, group.policy, group.members, group.hosts, group.rules, name=group.name
        )
        one.decided_by.append(f"server group {group.name} ({group.policy})")
    elif uuid is not None:
        one.notes.append(f"in server group {uuid}, whose policy is not known here")
