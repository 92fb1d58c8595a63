# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A synthetic fleet as the rows of an inventory, as agents would have written them.

Every fourth host reports its NUMA cells and PCI devices. Nothing was written for an hour.
"""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from benchmarks.fleet import a_fleet
from inventory import aggregates, services, tables
from inventory.dialects import current_time, utc_moment
from inventory.engine import Database
from inventory.heartbeat import VERSION
from inventory.objects.node_json import numa_topology_to_json, pci_pools_to_json
from scheduler.hosts.table import HostTable

Row = dict[str, Any]
AN_HOUR = timedelta(hours=1)
# Every so many hosts one has cells and devices to tell of.
_CELLS_EVERY = 4


def store(database: Database, size: int) -> None:
    """Write so many hosts into an empty database, with their services, instances and aggregates."""
    hosts = a_fleet(size)
    nodes = list(_nodes(hosts))
    names = [node["host"] for node in nodes]
    instances = list(_instances(hosts))

    def work(connection: sa.Connection) -> None:
        earlier = {"created_at": _earlier(connection), "updated_at": _earlier(connection)}
        connection.execute(sa.insert(tables.compute_nodes).values(**earlier), nodes)
        connection.execute(sa.insert(tables.instances).values(**earlier), instances)
        ids = services.register(connection, names, services.COMPUTE, VERSION)
        services.beat(connection, ids)
        for name, metadata, members in _aggregates(hosts):
            aggregates.create(connection, name, members, metadata)

    database.write(work)


def age_nodes(database: Database) -> None:
    """Let no node be one that was written just now, so that nobody looks at it again."""
    nodes = tables.compute_nodes

    def work(connection: sa.Connection) -> None:
        earlier = _earlier(connection)
        late = nodes.c.updated_at > earlier + AN_HOUR / 2
        connection.execute(sa.update(nodes).where(late).values(updated_at=earlier))

    database.write(work)


def audit(database: Database, every: int = 1) -> None:
    """Let every so manieth node be written anew, with other figures for what is in use."""
    nodes = tables.compute_nodes
    changes = {
        "generation": nodes.c.generation + 1,
        "updated_at": utc_moment(),
        "vcpus_used": nodes.c.vcpus_used + 1,
        "free_ram_mb": nodes.c.free_ram_mb - 2048,
        "stats": nodes.c.stats + " ",
    }
    statement = sa.update(nodes).where(nodes.c.id % every == 0).values(**changes)
    database.write(lambda connection: connection.execute(statement))


def _earlier(connection: sa.Connection) -> datetime:
    now = current_time(connection)
    return now.replace(microsecond=0) - AN_HOUR


def _nodes(hosts: HostTable) -> Iterator[Row]:
    cells, devices = (
        {id(each): write(each) for each in hosts.distinct(name) if each is not None}
        for name, write in (
            ("numa_topology", numa_topology_to_json),
            ("pci_stats", pci_pools_to_json),
        )
    )
    same = (
        "uuid host_ip hypervisor_type hypervisor_version cpu_info vcpus_used free_ram_mb"
        " free_disk_mb cpu_allocation_ratio ram_allocation_ratio disk_allocation_ratio"
    )
    for row in hosts.rows():
        get = lambda name, row=row: hosts.get(row, name)  # noqa: E731
        tells = row % _CELLS_EVERY == 0
        yield {
            **{name: get(name) for name in same.split()},
            "id": row + 1,
            "host": get("host"),
            "hypervisor_hostname": get("nodename"),
            "vcpus": get("vcpus_total"),
            "memory_mb": get("total_usable_ram_mb"),
            "memory_mb_used": get("total_usable_ram_mb") - get("free_ram_mb"),
            "local_gb": get("total_usable_disk_gb"),
            "local_gb_used": get("total_usable_disk_gb") - get("free_disk_mb") // 1024,
            "free_disk_gb": get("free_disk_mb") // 1024,
            "disk_mb_used": get("total_usable_disk_gb") * 1024 - get("free_disk_mb"),
            "supported_instances": json.dumps(get("supported_instances")),
            "stats": json.dumps(get("stats")),
            "metrics": json.dumps(get("metrics")),
            "numa_topology": cells[id(get("numa_topology"))] if tells else None,
            "pci_stats": devices[id(get("pci_stats"))] if tells else None,
            "generation": 1,
        }


def _instances(hosts: HostTable) -> Iterator[Row]:
    images = {}
    for row in hosts.rows():
        for number, each in enumerate(hosts.instances.on(row).values()):
            image = id(each.image_properties)
            if image not in images:
                images[image] = json.dumps(each.image_properties)
            yield {
                "uuid": str(UUID(int=row << 16 | number)),
                "host": hosts.get(row, "host"),
                "node": hosts.get(row, "nodename"),
                "display_name": f"instance-{row:05}-{number}",
                "project_id": UUID(int=row % 100).hex,
                "vcpus": 2,
                "memory_mb": 2048,
                "root_gb": 20,
                "vm_state": "active",
                "flavor_id": each.instance_type_id,
                "flavor_name": each.flavor_name,
                "image_properties": images[image],
            }


def _aggregates(hosts: HostTable) -> Iterator[tuple[str, dict[str, str], list[str]]]:
    for found in hosts.distinct("aggregates"):
        if found:
            here = [r for r in hosts.rows() if hosts.get(r, "aggregates") is found]
            yield found[0].name, dict(found[0].metadata), [hosts.get(r, "host") for r in here]
