# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Where the inventories in Placement and Nova's rows of compute nodes disagree. Pure."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from inventory.nova.allocation_audit import MEMORY, NovaRecords

# For each resource class the columns of compute_nodes with the total and the ratio.
_COLUMNS = {
    "VCPU": ("vcpus", "cpu_allocation_ratio"),
    MEMORY: ("memory_mb", "ram_allocation_ratio"),
    "DISK_GB": ("local_gb", "disk_allocation_ratio"),
}
# Nova keeps ratios in single precision.
_PRECISION = 1e-5


def inventory_differences(
    nova: NovaRecords, inventories: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    """Yield in words what differs, node by node; inventories are by node and resource class."""
    reserved = _reserved(nova)
    for uuid, row in nova.rows.items():
        found = [
            text
            for name, (total, ratio) in _COLUMNS.items()
            if (each := inventories.get(uuid, {}).get(name)) is not None
            for text in _differences(
                name,
                each,
                {
                    "total": getattr(row, total),
                    "max_unit": getattr(row, total),
                    # 0.0 is none to Nova, too.
                    "allocation_ratio": getattr(row, ratio) or None,
                    "reserved": reserved.get((uuid, name)),
                },
            )
        ]
        if found:
            yield f"{nova.nodes[uuid]} ({', '.join(found)})"


def _differences(name: str, inventory: Any, own: Mapping[str, float | None]) -> Iterator[str]:
    for field, value in own.items():
        there = getattr(inventory, field)
        if value is not None and not math.isclose(there, value, rel_tol=_PRECISION):
            yield f"{name} {field} {_shown(there)}, not {_shown(value)}"


def _shown(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6g}"


def _reserved(nova: NovaRecords) -> dict[tuple[str, str], int]:
    """Return what nodes use besides their instances, where nothing comes, goes or is unknown."""
    unknown: set[str | None] = {
        uuid for each in nova.migrations for uuid in (each.source_uuid, each.dest_uuid)
    }
    vcpus, memory_mb = Counter[str | None](), Counter[str | None]()
    for each in nova.instances:
        if each.is_busy or each.vcpus is None or each.memory_mb is None:
            unknown.add(each.node_uuid)
        else:
            vcpus[each.node_uuid] += each.vcpus
            memory_mb[each.node_uuid] += each.memory_mb
    found = {}
    for uuid, row in nova.rows.items():
        if uuid not in unknown:
            found[uuid, "VCPU"] = row.vcpus_used - vcpus[uuid]
            found[uuid, MEMORY] = row.memory_mb_used - memory_mb[uuid]
    return found
