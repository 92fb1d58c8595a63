# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What nodes hold for standbys and for reservations, read from the database."""

import math
from collections import defaultdict
from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from inventory.claims.standbys import read_sums
from inventory.claims.usage_update import MB_PER_GB, used_of
from inventory.compute_nodes import RESOURCES
from inventory.objects.amounts import Amounts, allocatable, amounts_facts, plus
from inventory.objects.standby import held
from inventory.promises import Promises
from inventory.tables import allocations, reservations

_A, _R = allocations.c, reservations.c
_PLACES = (
    sa.select(
        *(_A.compute_node_id, _R.name, _R.project_id),
        *(sa.func.sum(each) for each in (_A.vcpus, _A.memory_mb, _A.disk_mb)),
    )
    .join(reservations, _R.uuid == _A.reservation_uuid)
    .group_by(_A.compute_node_id, _R.name, _R.project_id)
)


def read(connection: sa.Connection, ids: Collection[int] | None = None) -> dict[int, Promises]:
    """Return the promises of these nodes, or of all, by their ids; those alone that hold any."""
    sums = read_sums(connection, ids)
    query = _PLACES if ids is None else _PLACES.where(_A.compute_node_id.in_(ids))
    places: defaultdict[int, dict[tuple[str, str], Amounts]] = defaultdict(dict)
    for node_id, name, project, *size in connection.execute(query):
        vcpus, memory_mb, disk_mb = map(int, size)
        # Nothing is held of a place while an instance as large as it has taken it.
        if vcpus or memory_mb or disk_mb:
            places[node_id][name, project] = vcpus, memory_mb, disk_mb
    return {
        node_id: Promises(held(sums.get(node_id, {})), sums.get(node_id, {}), places[node_id])
        for node_id in sorted(sums.keys() | places.keys())
    }


def room_of(connection: sa.Connection, node: dict[str, Any]) -> dict[str, Any]:
    """Return what of a node is used by instances, what is held for whom, and what is free.

    The instances' part includes what is reserved for the host. Other files are what is used of the
    file system besides what is counted. Free is of what may be allocated.
    """
    used = used_of(node)
    totals = node["vcpus"], node["memory_mb"], node["local_gb"] * MB_PER_GB
    ratios = (node[ratio] for _, _, ratio in RESOURCES.values())
    vcpus, memory_mb, disk_mb = map(math.floor, map(allocatable, totals, ratios))
    held = read(connection, [node["id"]]).get(node["id"], Promises())
    facts = held.facts()
    files = (0, 0, max(0, used[2] - node["disk_mb_used"]))
    return {
        "used_by_instances": amounts_facts(plus(plus(used, held.held, -1), files, -1)),
        "used_by_other_files": amounts_facts(files),
        "held_for_standbys": amounts_facts(held.standbys),
        "standbys_by_domain": facts["domains"],
        "held_for_reservations": amounts_facts(held.reserved),
        "reservations": facts["reservations"],
        "free": amounts_facts(plus((vcpus, memory_mb, disk_mb), used, -1)),
    }
