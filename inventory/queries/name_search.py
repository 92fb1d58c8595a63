# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Hosts, instances, decisions and projects that a text names, whichever of them it is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from inventory import decisions
from inventory.claims.types import PENDING
from inventory.queries import name_queries
from inventory.rows import named
from inventory.tables import allocations, compute_nodes, instances, services

# Of each kind that is listed.
LIMIT = 20


@dataclass(frozen=True, slots=True)
class Found:
    """What a text names, at most LIMIT of a kind.

    instances are rows with uuid, name, host and project_id. project is the text if it is one.
    """

    hosts: Sequence[str]
    instances: Sequence[Any]
    decisions: Sequence[Any]
    project: str | None

    def exact(self, text: str) -> list[tuple[str, str]]:
        """Return (kind, key) of the objects whose whole name, uuid or id is the text."""
        folded = text.casefold()
        found = [("hosts", each) for each in self.hosts if each.casefold() == folded]
        names = {each.uuid: (each.uuid, (each.name or "").casefold()) for each in self.instances}
        found += [("instances", uuid) for uuid, each in names.items() if folded in each]
        return found or [("decisions", str(each.id)) for each in self.decisions[:1]]


def find(connection: sa.Connection, text: str) -> Found:
    """Return what a text names: a part of a host's or instance's name, or the beginning of a uuid.

    Requests, decisions and projects are found by their whole ids only.
    """
    a, c, folded = allocations.c, instances.c, text.lower()
    hosts = sa.union(*(_hosts(table, folded) for table in (compute_nodes, services)))
    columns = (c.uuid, c.display_name.label("name"), c.host, c.project_id)
    named_so = sa.or_(
        c.uuid.startswith(folded, autoescape=True),
        sa.func.lower(c.display_name).contains(folded, autoescape=True),
        c.project_id == text,
    )
    places = sa.select(*columns).where(c.deleted == 0, named_so).order_by(c.id).limit(LIMIT)
    rows = named(connection.execute(places))
    if not rows:
        # Instances that are on their way are known by their claims alone.
        empty = sa.null().label("name")
        claimed = sa.select(a.instance_uuid.label("uuid"), empty, a.host, a.project_id)
        # One for each at most; reserved places are rows there, too, and no instances.
        is_so = a.instance_uuid.startswith(folded, autoescape=True)
        claimed = claimed.where(a.state == PENDING, is_so)
        rows = named(connection.execute(claimed.order_by(a.id).limit(LIMIT)))
    projects = {each.project_id for each in rows}
    is_project = text in projects or text in name_queries.names(connection, "projects")
    return Found(
        sorted(connection.scalars(hosts.order_by("host").limit(LIMIT))),
        rows,
        decisions.find(connection, text, LIMIT),
        text if is_project else None,
    )


def _hosts(table: sa.Table, folded: str) -> sa.Select[Any]:
    part = sa.func.lower(table.c.host).contains(folded, autoescape=True)
    return sa.select(table.c.host).where(table.c.deleted == 0, part)
