# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Counters of changes: of tables, for their readers, and of what makes hosts eligible, for claims.

Schedulers read the eligibility revision of a node together with aggregates and services, and claims
compare it: a claim that was decided before such a change does not fit after it. The transaction of
the change writes the rows of the nodes, since a cluster of databases certifies what transactions
write, not what they lock. Source: design, section 11.
"""

from collections.abc import Iterable
from datetime import datetime

import sqlalchemy as sa
from oslo_db.exception import DBDuplicateEntry

from inventory.dialects import utc_moment
from inventory.rows import execute_in, select_in
from inventory.tables import compute_nodes as nodes
from inventory.tables import revisions, services

SERVICES = "services"
AGGREGATES = "aggregates"
RESERVATIONS = "reservations"
# The column of compute_nodes that claims compare.
ELIGIBILITY = "eligibility_revision"
# The services whose rows are written when nodes of their hosts come and go.
_BINARY = "nova-compute"
# A join with the clock, so that there is a row before anything was written.
_CLOCK = sa.select(utc_moment().label("now")).subquery()
_CURRENT = sa.select(_CLOCK.c.now, revisions).select_from(_CLOCK.outerjoin(revisions, sa.true()))


def current(connection: sa.Connection) -> tuple[dict[str, int], datetime]:
    """Return {name: revision} of the tables that were ever written, and the database's time."""
    rows = connection.execute(_CURRENT).all()
    return {row.name: row.revision for row in rows if row.name is not None}, rows[0].now


def lock(connection: sa.Connection, name: str) -> None:
    """Lock the counter of a table until the transaction ends.

    It only keeps to the order in which rows are locked: a cluster does not replicate it.
    """
    query = sa.select(revisions.c.revision).where(revisions.c.name == name)
    connection.execute(query.with_for_update())


def advance(connection: sa.Connection, name: str) -> None:
    """Count one more change of the named table, in the transaction that makes it."""
    statement = (
        sa.update(revisions)
        .where(revisions.c.name == name)
        .values(revision=revisions.c.revision + 1)
    )
    if not connection.execute(statement).rowcount:
        try:
            connection.execute(sa.insert(revisions).values(name=name, revision=1))
        # Another transaction has counted the first one meanwhile.
        except DBDuplicateEntry:
            connection.execute(statement)


def advance_eligibility(
    connection: sa.Connection, hosts: Iterable[str], everywhere: bool = False
) -> None:
    """Count one more change for these hosts, in the transaction that makes it.

    Called before claims and instances on the hosts are read: until the transaction ends no other
    claims there, or adds or deletes a node. everywhere counts on the nodes of all hosts.
    """
    names = {*hosts}
    advance_services(connection, names)
    live = sa.select(nodes.c.id).where(nodes.c.deleted == 0)
    ids: Iterable[int]
    if everywhere:
        ids = connection.scalars(live)
    else:
        ids = [row.id for row in select_in(connection, live, nodes.c.host, names)]
    change = (
        sa.update(nodes)
        .where(nodes.c.deleted == 0)
        .values(
            eligibility_revision=nodes.c.eligibility_revision + 1,
            generation=nodes.c.generation + 1,
            updated_at=utc_moment(),
        )
    )
    # By id: claims lock nodes in this order.
    execute_in(connection, change, nodes.c.id, ids)


def advance_services(connection: sa.Connection, hosts: Iterable[str]) -> None:
    """Write the compute services of hosts, as every transaction does that adds or deletes nodes.

    An operation that could not see a node yet, and so did not write it, conflicts with it here.
    """
    change = (
        sa.update(services)
        .where(services.c.binary == _BINARY, services.c.deleted == 0)
        .values(eligibility_revision=services.c.eligibility_revision + 1)
    )
    execute_in(connection, change, services.c.host, {*hosts})
