# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Names by which operators narrow a list: one that there is nothing of is a mistake.

Each function returns a name as it is spelled here. It raises Unknown, with names that are like it.
"""

from collections.abc import Iterable

import sqlalchemy as sa

from inventory import aggregates
from inventory.names import nearest
from inventory.refusals import Unknown
from inventory.services import COMPUTE, SCHEDULER
from inventory.tables import allocations, compute_nodes, services


def zone(connection: sa.Connection, asked: str, default: str) -> str:
    """Find an availability zone; default is that of hosts which are in no other."""
    records = aggregates.everything(connection)
    known = {default, *(zone for record in records for zone in record.zones)}
    if asked in known:
        return asked
    hint = nearest(asked, known, "see 'availability zone list'")
    raise Unknown(f"there is no availability zone {asked!r}; {hint}")


def host(connection: sa.Connection, asked: str) -> str:
    """Find a host, in any letter case, that has a service, a compute node or a claim."""
    query = sa.union(
        sa.select(services.c.host).where(services.c.deleted == 0),
        sa.select(compute_nodes.c.host).where(compute_nodes.c.deleted == 0),
        sa.select(allocations.c.host),
    )
    return _spelled(asked, connection.scalars(query), "host")


def binary(connection: sa.Connection, asked: str) -> str:
    """Find a kind of service, in any letter case, be there one at present or not."""
    query = sa.select(services.c.binary).where(services.c.deleted == 0).distinct()
    return _spelled(asked, {COMPUTE[0], SCHEDULER[0], *connection.scalars(query)}, "binary")


def _spelled(asked: str, names: Iterable[str], kind: str) -> str:
    known = {each.casefold(): each for each in names}
    if asked.casefold() not in known:
        hint = nearest(asked, known.values(), "see 'service list'")
        raise Unknown(f"there is no {kind} {asked!r}; {hint}")
    return known[asked.casefold()]
