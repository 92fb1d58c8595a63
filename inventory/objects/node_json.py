# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Columns of compute nodes with one of Nova's objects as JSON text."""

import json
from collections.abc import Iterable
from typing import Any

from inventory.objects.field_types import (
    COUNT,
    INTEGER,
    NAME,
    TEXT,
    TRUTH,
    UUID,
    FieldType,
    from_json,
    list_of,
    map_of,
    mapping_of,
    nullable,
    or_none,
    set_of,
)
from inventory.objects.numa import (
    InstanceNUMACell,
    InstanceNUMATopology,
    NUMACell,
    NUMAPagesTopology,
    NUMATopology,
)
from inventory.objects.object_schema import NAME_KEY, Fields, ObjectSchema, object_list
from inventory.objects.pci_and_network import NetworkMetadata, PciDevicePool


def _share_cpus(cell: Fields) -> None:
    # Before NUMACell 1.4 floating and pinned guests shared one set of CPUs.
    cell.setdefault("pcpuset", set(cell.get("cpuset", ())))


NETWORK_METADATA = ObjectSchema(
    NetworkMetadata, "1.0", {"physnets": set_of(NAME), "tunneled": TRUTH}
)
NUMA_PAGES = ObjectSchema(
    NUMAPagesTopology, "1.1", {"size_kb": COUNT, "total": COUNT, "used": COUNT, "reserved": COUNT}
)
NUMA_CELL = ObjectSchema(
    NUMACell,
    "1.5",
    {
        "id": COUNT,
        "cpuset": set_of(COUNT),
        "pcpuset": set_of(COUNT),
        "memory": COUNT,
        "cpu_usage": INTEGER,
        "memory_usage": INTEGER,
        "pinned_cpus": set_of(COUNT),
        "siblings": list_of(set_of(COUNT)),
        "mempages": list_of(NUMA_PAGES.kind),
        "network_metadata": NETWORK_METADATA.kind,
        "socket": nullable(INTEGER),
    },
    normalize=_share_cpus,
)
NUMA_TOPOLOGY = ObjectSchema(NUMATopology, "1.2", {"cells": list_of(NUMA_CELL.kind)})


def _normalize_guest_cell(cell: Fields) -> None:
    # Before InstanceNUMACell 1.3 an empty cpu_pinning requested pinned CPUs.
    if "cpu_policy" not in cell and cell.get("cpu_pinning") == {}:
        cell["cpu_policy"] = "dedicated"
    # Before InstanceNUMACell 1.5 cpuset held the CPUs of pinned guests too.
    if "pcpuset" not in cell and cell.get("cpu_policy") == "dedicated":
        cell["pcpuset"] = cell.pop("cpuset", set())


GUEST_CELL = ObjectSchema(
    InstanceNUMACell,
    "1.6",
    {
        "id": COUNT,
        "cpuset": set_of(COUNT),
        "pcpuset": set_of(COUNT),
        "cpuset_reserved": nullable(set_of(COUNT)),
        "memory": COUNT,
        "pagesize": nullable(INTEGER),
        "cpu_pinning_raw": nullable(map_of(COUNT, key=COUNT)),
        "cpu_policy": nullable(NAME),
        "cpu_thread_policy": nullable(NAME),
    },
    renamed={"cpu_pinning_raw": "cpu_pinning"},
    normalize=_normalize_guest_cell,
)
GUEST_TOPOLOGY = ObjectSchema(
    InstanceNUMATopology,
    "1.3",
    {
        "id": INTEGER,
        "instance_uuid": UUID,
        "cells": list_of(GUEST_CELL.kind),
        "emulator_threads_policy": nullable(NAME),
    },
)
_POOL: dict[str, FieldType] = {
    "product_id": NAME,
    "vendor_id": NAME,
    "numa_node": nullable(INTEGER),
    "tags": map_of(or_none(TEXT)),
    "count": COUNT,
    # Of ours; Nova's pools have none.
    "total": COUNT,
}
PCI_POOL = ObjectSchema(PciDevicePool, "1.1", _POOL)


def _read_pool(value: Any) -> PciDevicePool:
    # Before pools were objects, tags were fields.
    if NAME_KEY not in mapping_of(value):
        tags = {name: each for name, each in value.items() if name not in _POOL}
        value = value | {"tags": tags | mapping_of(value.get("tags") or {})}
    return PCI_POOL.read(value)


PCI_POOLS = object_list("PciDevicePoolList", "1.1", FieldType(_read_pool, PCI_POOL.write))


def numa_topology_from_json(text: str | None) -> NUMATopology | None:
    """Parse the column ``numa_topology``; raises Malformed."""
    parsed = from_json(text) if text else None
    return None if parsed is None else NUMA_TOPOLOGY.read(parsed)


def numa_topology_to_json(topology: NUMATopology) -> str:
    """Write the column ``numa_topology``."""
    return json.dumps(NUMA_TOPOLOGY.write(topology))


def guest_topology_from_json(text: str) -> InstanceNUMATopology:
    """Parse the cells of a guest; raises Malformed."""
    return GUEST_TOPOLOGY.read(from_json(text))


def guest_topology_to_json(topology: InstanceNUMATopology) -> str:
    """Write the cells of a guest."""
    return json.dumps(GUEST_TOPOLOGY.write(topology))


def pci_pools_from_json(text: str | None) -> list[PciDevicePool]:
    """Parse the column ``pci_stats``; raises Malformed."""
    parsed = from_json(text) if text else None
    return [] if parsed is None else list(PCI_POOLS.read(parsed))


def pci_pools_to_json(pools: Iterable[PciDevicePool]) -> str:
    """Write the column ``pci_stats``."""
    return json.dumps(PCI_POOLS.write(list(pools)))
