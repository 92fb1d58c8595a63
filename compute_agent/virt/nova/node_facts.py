# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Nova's rows of compute nodes as facts. Pure."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from compute_agent.virt.driver import MIB_PER_GIB, NodeFacts, NodeSettings, Size
from inventory import stored_documents
from inventory.objects.field_types import Malformed
from inventory.objects.node_json import numa_topology_from_json, pci_pools_from_json
from inventory.objects.numa import NUMATopology

T = TypeVar("T")
RATIOS = ("cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio")
# What the audit counts itself.
_COUNTED = ("num_", "io_workload")


def facts(row: Any, reserved: Size) -> NodeFacts:
    """Return the facts of a row with the columns inventory.nova.computes.NODE.

    Raises Malformed for a document that cannot be read, with the name of its column.
    """
    settings = NodeSettings(
        host_ip=row.host_ip or "",
        reserved=reserved,
        # To Nova 0.0 is none, too.
        ratios={name: value for name in RATIOS if (value := getattr(row, name))},
        pci_pools=tuple(_column(row, "pci_stats", pci_pools_from_json)),
        metrics=tuple(_column(row, "metrics", lambda text: _document(text, list))),
        stats=_column(row, "stats", _kept_stats),
    )
    return NodeFacts(
        vcpus=row.vcpus,
        memory_mb=row.memory_mb,
        local_gb=row.local_gb,
        hypervisor_type=row.hypervisor_type,
        hypervisor_version=row.hypervisor_version,
        uuid=row.uuid,
        disk_available_least=row.disk_available_least,
        cpu_info=row.cpu_info or "",
        supported_instances=_column(row, "supported_instances", _triples),
        numa=_unused(_column(row, "numa_topology", numa_topology_from_json)),
        settings=settings,
    )


def used(row: Any) -> Size:
    """Return what is used of a node by its row, reserves included."""
    return Size(row.vcpus_used, row.memory_mb_used, row.local_gb_used * MIB_PER_GIB)


def with_reserved(facts: NodeFacts, reserved: Size) -> NodeFacts:
    """Return the facts of a node with another reserve."""
    assert facts.settings is not None
    if facts.settings.reserved == reserved:
        return facts
    return replace(facts, settings=replace(facts.settings, reserved=reserved))


def _column(row: Any, name: str, parse: Callable[[str | None], T]) -> T:
    """Return what a column of a row has; raises Malformed with its name."""
    try:
        return parse(getattr(row, name))
    except stored_documents.UNREADABLE as error:
        raise Malformed(f"column {name}: {error}") from None


def _triples(text: str | None) -> tuple[tuple[str, str, str], ...]:
    return tuple((str(a), str(h), str(m)) for a, h, m in _document(text, list))


def _document(text: str | None, kind: type) -> Any:
    """Return a JSON text of this kind, or an empty one where there is none."""
    found = json.loads(text) if text else None
    if found is None:
        return kind()
    if not isinstance(found, kind):
        raise Malformed(f"{kind.__name__} expected, not {type(found).__name__}")
    return found


def _kept_stats(text: str | None) -> dict[str, str]:
    stats = _document(text, dict)
    return {name: str(stats[name]) for name in sorted(stats) if not name.startswith(_COUNTED)}


def _unused(topology: NUMATopology | None) -> NUMATopology | None:
    for cell in topology.cells if topology is not None else ():
        cell.cpu_usage = cell.memory_usage = 0
        cell.pinned_cpus = set()
        for pages in cell.mempages:
            pages.used = 0
    return topology
