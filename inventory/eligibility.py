# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Counting the changes of what makes hosts eligible: their aggregates, zones and services.

Schedulers read the count of a node together with aggregates and services, and claims compare it: a
claim that was decided before such a change does not fit after it. Whoever makes one writes the rows
of the nodes concerned, since a cluster of databases certifies what transactions write, not what
they lock. Source: design, section 11.
"""

from collections.abc import Iterable

import sqlalchemy as sa

from inventory.chunks import chunks
from inventory.tables import compute_nodes as nodes
from inventory.tables import services, utc_moment

# The column of compute_nodes that claims compare.
REVISION = "eligibility_revision"
# Whose rows come and go with the nodes of a host.
_BINARY = "nova-compute"


def advance(connection: sa.Connection, hosts: Iterable[str], everywhere: bool = False) -> None:
    """Count one more change for these hosts, in the transaction that makes it.

    Called before claims and instances on them are read: until the transaction ends nobody claims
    there, and adds or deletes a node. A change that bears upon hosts which it does not name counts
    on the nodes of all, everywhere.
    """
    names = sorted({*hosts})
    advance_services(connection, names)
    if everywhere:
        _advance_nodes(connection, sa.true())
        return
    for some in chunks(names):
        _advance_nodes(connection, nodes.c.host.in_(some))


def advance_services(connection: sa.Connection, hosts: Iterable[str]) -> None:
    """Write the compute services of hosts, as whoever adds nodes to them or deletes them does.

    So an order that could not see a node yet, and so not write it, does not slip past it.
    """
    for some in chunks(sorted({*hosts})):
        live = sa.and_(services.c.binary == _BINARY, services.c.deleted == 0)
        connection.execute(
            sa.update(services)
            .where(live, services.c.host.in_(some))
            .values(eligibility_revision=services.c.eligibility_revision + 1)
        )


def _advance_nodes(connection: sa.Connection, where: sa.ColumnElement[bool]) -> None:
    # By their ids, since that is the order in which who claims locks them.
    ids = connection.scalars(sa.select(nodes.c.id).where(where, nodes.c.deleted == 0))
    for some in chunks(sorted(ids)):
        connection.execute(
            sa.update(nodes)
            .where(nodes.c.id.in_(some), nodes.c.deleted == 0)
            .values(
                eligibility_revision=nodes.c.eligibility_revision + 1,
                generation=nodes.c.generation + 1,
                updated_at=utc_moment(),
            )
        )
