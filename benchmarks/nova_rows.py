# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of hosts and instances in the databases of a Nova cloud, as its services write them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from tests.databases import a_uuid

NODE: Mapping[str, Any] = {
    "vcpus": 64,
    "memory_mb": 262144,
    "local_gb": 4000,
    "vcpus_used": 0,
    "memory_mb_used": 512,
    "local_gb_used": 0,
    "free_ram_mb": 261632,
    "free_disk_gb": 4000,
    "disk_available_least": 4000,
    "hypervisor_type": "QEMU",
    "hypervisor_version": 7002022,
    "current_workload": 0,
    "running_vms": 0,
    "cpu_info": "{}",
    "host_ip": "127.0.0.1",
    "supported_instances": '[["x86_64", "kvm", "hvm"], ["x86_64", "qemu", "hvm"]]',
    "metrics": "[]",
    "stats": "{}",
    "cpu_allocation_ratio": 4.0,
    "ram_allocation_ratio": 1.0,
    "disk_allocation_ratio": 1.0,
    "mapped": 1,
    "deleted": 0,
}
SERVICE: Mapping[str, Any] = {
    "binary": "nova-compute",
    "topic": "compute",
    "report_count": 1,
    "disabled": 0,
    "deleted": 0,
    "forced_down": 0,
    # The oldest that Nova 34 serves; newer ones would have to have more traits.
    "version": 72,
}
SIZE: Mapping[str, int] = {"vcpus": 2, "memory_mb": 4096, "root_gb": 20, "ephemeral_gb": 0}
FLAVOR = {"nova_object.data": {"id": 1, "name": "m1", "swap": 0, **SIZE}}


def table(connection: sa.Connection, name: str) -> sa.Table:
    """Return a table as it is there."""
    return sa.Table(name, sa.MetaData(), autoload_with=connection)


def add_hosts(api: sa.Engine, cell: sa.Engine, cell_name: str, names: Sequence[str]) -> None:
    """Add hosts to a cell, each with its mapping, service and compute node."""
    now = sa.func.utc_timestamp()
    with api.begin() as connection:
        cells = table(connection, "cell_mappings")
        found = sa.select(cells.c.id).where(cells.c.name == cell_name)
        number = connection.execute(found).scalar_one()
        mappings = sa.insert(table(connection, "host_mappings"))
        connection.execute(mappings, [{"host": each, "cell_id": number} for each in names])
    with cell.begin() as connection:
        services = sa.insert(table(connection, "services"))
        services = services.values(created_at=now, updated_at=now, last_seen_up=now)
        uuids = [{"host": each, "uuid": a_uuid(f"service {each}")} for each in names]
        connection.execute(services, [{**SERVICE, **each} for each in uuids])
        nodes = sa.insert(table(connection, "compute_nodes")).values(created_at=now, updated_at=now)
        own = [{"host": each, "hypervisor_hostname": each, "uuid": a_uuid(each)} for each in names]
        connection.execute(nodes, [{**NODE, **each} for each in own])


def add_instances(cell: sa.Engine, hosts: Mapping[str, str]) -> None:
    """Add active instances to a cell; hosts has the host of each by its uuid."""
    now = sa.func.utc_timestamp()
    own = [{"uuid": uuid, "host": host, "node": host} for uuid, host in hosts.items()]
    common = {**SIZE, "vm_state": "active", "image_ref": "", "display_name": "vm", "deleted": 0}
    extra = [{"instance_uuid": uuid, "flavor": json.dumps({"cur": FLAVOR})} for uuid in hosts]
    with cell.begin() as connection:
        instances = sa.insert(table(connection, "instances"))
        instances = instances.values(created_at=now, updated_at=now, launched_at=now)
        connection.execute(instances, [{**common, "instance_type_id": 1, **each} for each in own])
        extras = sa.insert(table(connection, "instance_extra"))
        connection.execute(extras.values(created_at=now, updated_at=now, deleted=0), extra)
