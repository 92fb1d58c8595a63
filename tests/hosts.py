# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Builders of hosts and of tables of hosts, ordinary in all but what a test is about."""

from collections.abc import Iterable, Mapping
from typing import Any

from inventory.objects.aggregate import Aggregate
from scheduler.hosts.columns import NUMBERS, OBJECTS
from scheduler.hosts.host_state import HostState
from scheduler.hosts.table import HostTable
from scheduler.objects.instance import Instance

ORDINARY: Mapping[str, Any] = {
    "total_usable_ram_mb": 65536,
    "free_ram_mb": 65536,
    "total_usable_disk_gb": 1000,
    "free_disk_mb": 1000 * 1024,
    "vcpus_total": 16,
    "vcpus_used": 0,
    "cpu_allocation_ratio": 1.0,
    "ram_allocation_ratio": 1.0,
    "disk_allocation_ratio": 1.0,
    "heartbeat_age": 0.0,
    "supported_instances": [["x86_64", "kvm", "hvm"]],
    "hypervisor_version": 6002000,
    "aggregates": [],
    "stats": {},
}
_COLUMNS = sorted((NUMBERS | set(OBJECTS)) - {"host", "nodename"})


def a_host(host: str = "h1", nodename: str | None = None, **attributes: Any) -> HostState:
    """Return an empty, living host of 16 CPUs, 64 GB and 1000 GB in a table of its own.

    A node is called as its host unless it is named. instances may be a list of uuids.
    """
    state = HostState(host, host if nodename is None else nodename)
    instances = attributes.pop("instances", {})
    if not isinstance(instances, Mapping):
        instances = {uuid: Instance(uuid=uuid, host=host) for uuid in instances}
    state.instances = instances
    for name, value in (ORDINARY | attributes).items():
        setattr(state, name, value)
    return state


def a_table(*hosts: HostState) -> HostTable:
    """Return a table with the values of these hosts, in their order, and their flavor mix."""
    table = HostTable()
    for each in hosts:
        table.set_flavor_mix(each.table.flavor_mix or table.flavor_mix)
        row = table.add(each.host, each.nodename)
        for name in _COLUMNS:
            table.set(row, name, getattr(each, name))
        table.instances.replace(row, each.instances)
    return table


def hosts_with(name: str, values: Mapping[str, Any]) -> HostTable:
    """Return a table of hosts that differ in one attribute: {host: its value}."""
    return a_table(*(a_host(host, **{name: value}) for host, value in values.items()))


def an_aggregate(*hosts: str, **metadata: str) -> Aggregate:
    """Return an aggregate with this metadata."""
    return Aggregate(name="aggregate", hosts=list(hosts), metadata=metadata)


def in_aggregates(key: str, values: Iterable[str]) -> list[Aggregate]:
    """Return one aggregate for each of the values of a metadata key."""
    return [Aggregate(name=f"a{each}", metadata={key: each}) for each in values]
