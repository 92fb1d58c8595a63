# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The instances of hosts that are to be emptied, and what is known of what they ask for."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, NamedTuple

import sqlalchemy as sa

from inventory import allocations, group_memberships, instances
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
from scheduler.objects.pci import InstancePCIRequest, InstancePCIRequests
from scheduler.objects.request_spec import RequestSpec

# What is known of every instance.
SIZE = ["vCPUs", "memory", "disk"]


class Rows(NamedTuple):
    """What the database has about instances, by uuid: rows, claims and server groups."""

    instances: Mapping[str, Any]
    claims: Mapping[str, Any]
    groups: Mapping[str, tuple[str, ServerGroupRecord | None]]


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
    """Return the rows of hosts by their names; raises Unknown, with names that are like it."""
    known = {hosts.get(row, "host") for row in hosts.rows()}
    for name in names:
        if name not in known:
            near = get_close_matches(name, sorted(known), n=3, cutoff=0.6)
            hint = f"did you mean {' or '.join(near)}?" if near else "see 'host list'"
            raise Unknown(f"no host {name!r} has reported; {hint}")
    return sorted(row for name in set(names) for row in hosts.rows_of_host(name))


def _read(connection: sa.Connection, hosts: Collection[str], node_ids: Collection[int]) -> Rows:
    """Return what the database has about the instances on these hosts and nodes."""
    found = {row.uuid: row for row in instances.of_hosts(connection, hosts)}
    claims = {row.instance_uuid: row for row in allocations.on_nodes(connection, node_ids)[0]}
    groups = group_memberships.of_instances(connection, found.keys() | claims.keys())
    return Rows(found, claims, groups)


def known(current: CurrentHosts, hosts: HostTable, rows: Collection[int]) -> list[Known]:
    """Return the instances on some rows, with what is known of them."""
    names = {hosts.get(row, "host") for row in rows}
    ids = [hosts.get(row, "node_id") for row in rows]
    found = current.database.read(lambda connection: _read(connection, names, ids))
    return list(_known(hosts, rows, found))


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
            others = [each for each in hosts.residents.rows_of(uuid) if each not in rows]
            if others:
                yield Known(uuid, *place, already=hosts.get(others[0], "host"))
            else:
                yield _one(row, Known(uuid, *place), instance, found)


def _one(row: int, one: Known, instance: Instance, found: Rows) -> Known:
    stored, claim = found.instances.get(one.uuid), found.claims.get(one.uuid)
    spec = RequestSpec(
        Flavor(
            instance.vcpus or 0,
            instance.memory_mb or 0,
            instance.root_gb or 0,
            instance.ephemeral_gb or 0,
            stored.swap_mb if stored else 0,
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
    one.leaving = Leaving(spec, row)
    return one


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
        wanted = [
            InstancePCIRequest(
                each.count, [{"vendor_id": each.vendor_id, "product_id": each.product_id}]
            )
            for each in pools
        ]
        spec.pci_requests = InstancePCIRequests(one.uuid, wanted)
        one.decided_by.append("PCI devices")


def _add_group(spec: RequestSpec, one: Known, found: Rows) -> None:
    uuid, group = found.groups.get(one.uuid, (None, None))
    if group is not None:
        spec.instance_group = InstanceGroup(
            group.uuid, group.policy, group.members, group.hosts, group.rules, name=group.name
        )
        one.decided_by.append(f"server group {group.name} ({group.policy})")
        if group.policy == "affinity" and len(group.members) > 1:
            one.notes.append("a request to move it alone is refused while other members stay")
    elif uuid is not None:
        one.notes.append(f"in server group {uuid}, whose policy is not known here")
