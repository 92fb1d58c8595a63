# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Migrations of a Nova cloud in its tables, and what an agent polls of the hosts at both ends."""

import json
from typing import Any

from compute_agent.audit.row_builder import PollResult, Settings
from compute_agent.virt.driver import NodeName
from compute_agent.virt.nova.cell import CellMirror
from tests.nova_tables import NovaTables, a_flavor


def move(nova: NovaTables, uuid: str, kind: str, destination: str = "h2", **extra: Any) -> None:
    """Begin the migration number 7 of an instance from h1 to another or its own size."""
    flavors = json.dumps({"cur": a_flavor(), "old": a_flavor(), "new": a_flavor(2)})
    nova.change("instance_extra", {"instance_uuid": uuid}, flavor=flavors, **extra)
    ends = {"source_compute": "h1", "source_node": "h1"}
    ends |= {"dest_compute": destination, "dest_node": destination}
    kinds = {"old_instance_type_id": 1, "new_instance_type_id": 2, "migration_type": kind}
    nova.add("migrations", id=7, instance_uuid=uuid, status="migrating", **ends, **kinds)


def polled(mirror: CellMirror, name: NodeName) -> PollResult:
    """Return what an agent has polled of a node."""
    return PollResult(
        name=name,
        uuid=name.node,
        service_id=1,
        settings=Settings("192.0.2.7"),
        facts=mirror.facts(name),
        guests=list(mirror.guests(name)),
        moves=list(mirror.moves(name)),
    )
