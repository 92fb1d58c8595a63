# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The fleet that benchmarks decide on beside Nova, as the rows that agents would have written."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import uuid4

import sqlalchemy as sa

from benchmarks import comparable
from inventory import tables
from inventory.dialects import current_time
from inventory.engine import Database
from inventory.heartbeat import VERSION
from inventory.services import COMPUTE

_SUPPORTED = '[["x86_64", "kvm", "hvm"], ["i686", "kvm", "hvm"]]'
# Rows that were written just now are read again and again.
_LONG_AGO = timedelta(hours=1)


def store(database: Database, size: int) -> None:
    """Write so many hosts into an empty database, all of their services alive."""
    fleet = comparable.a_fleet(size)

    def work(connection: sa.Connection) -> None:
        now = current_time(connection)
        binary, topic = COMPUTE
        alive = {"binary": binary, "topic": topic, "version": VERSION, "last_seen_up": now}
        services = [{**alive, "uuid": str(uuid4()), "host": each["host"]} for each in fleet]
        connection.execute(sa.insert(tables.services), services)
        nodes = [{**a_node(each), "updated_at": now - _LONG_AGO} for each in fleet]
        connection.execute(sa.insert(tables.compute_nodes), nodes)

    database.write(work)


def a_node(host: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of compute_nodes of a host that is given by what filters read of it."""
    used_mb = 1024 * host["total_usable_disk_gb"] - host["free_disk_mb"]
    return {
        "uuid": str(uuid4()),
        "host": host["host"],
        "hypervisor_hostname": host["host"],
        "hypervisor_type": "QEMU",
        "hypervisor_version": host["hypervisor_version"],
        "vcpus": host["vcpus_total"],
        "vcpus_used": host["vcpus_used"],
        "memory_mb": host["total_usable_ram_mb"],
        "memory_mb_used": host["total_usable_ram_mb"] - host["free_ram_mb"],
        "free_ram_mb": host["free_ram_mb"],
        "local_gb": host["total_usable_disk_gb"],
        "local_gb_used": used_mb // 1024,
        "disk_mb_used": used_mb,
        "free_disk_gb": host["free_disk_mb"] // 1024,
        "free_disk_mb": host["free_disk_mb"],
        "disk_available_least": host["free_disk_mb"] // 1024,
        "running_vms": host["num_instances"],
        "current_workload": host["num_io_ops"],
        "cpu_allocation_ratio": host["cpu_allocation_ratio"],
        "ram_allocation_ratio": host["ram_allocation_ratio"],
        "disk_allocation_ratio": host["disk_allocation_ratio"],
        "supported_instances": _SUPPORTED,
        "cpu_info": "{}",
        "stats": "{}",
        "metrics": "[]",
        "host_ip": "127.0.0.1",
        "generation": 1,
    }
