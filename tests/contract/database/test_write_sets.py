# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Transactions that exclude each other write a row in common: the table of the contributor's guide.

A cluster of databases certifies by written rows. They are recorded as what differs afterwards, by
primary and unique keys.
"""

import time
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
import sqlalchemy as sa

from compute_agent.audit import transaction
from compute_agent.audit.row_builder import PollResult, Settings
from compute_agent.audit.transaction import Batch
from compute_agent.virt.driver import NodeName, Size
from inventory import compute_nodes, tables
from inventory.claims import claims, group_locks, standbys
from inventory.claims.types import Claim, ClaimRequest, GroupRule, Standby
from inventory.dialects import utc_now
from inventory.operations import (
    aggregate_operations,
    reservation_operations,
    server_group_operations,
    service_operations,
)
from inventory.operations.aggregate_operations import Change, ZoneRules
from inventory.operations.reservation_operations import NewReservation
from tests.claimed import let_pass
from tests.databases import a_node, a_uuid, an_instance, serve
from tests.fixtures.agent import a_guest, some_facts
from tests.guides import page, table_rows

ZONES = ZoneRules("nova", with_instances=True)
HOUR = timedelta(hours=1)
LATER = datetime(2099, 1, 1)
TABLE = table_rows(page("contributor/transactions"), "excludes")
PENDING = a_guest(1).uuid
# Of what a row is made beside its primary key, for a cluster as well.
KEYS = {
    table.name: [
        [*table.primary_key.columns.keys()],
        *(
            [*each.columns.keys()]
            for each in table.constraints
            if isinstance(each, sa.UniqueConstraint)
        ),
    ]
    for table in tables.metadata.sorted_tables
}


def findings(*guests, node="h1", host="h1"):
    settings = Settings("192.0.2.1", Size())
    name = NodeName(host, node)
    return PollResult(name, a_uuid(f"{host} {node}"), 7, settings, some_facts(), list(guests))


def audit(*guests, **place):
    """Return what writes what an audit of a node has found."""

    def work(connection):
        found = findings(*guests, **place)
        marks = compute_nodes.row_versions(connection, [found.name.host])
        known = {NodeName(*each): mark for each, mark in marks.items()}
        transaction.store(connection, Batch([found], known, time.monotonic(), HOUR))

    return work


def claim(uuid, host="h1", request="req-new", place=None, **changes):
    """Return what claims for an instance on a host, as a member of group "web" with a rule."""

    def work(connection):
        (row,) = compute_nodes.of_hosts(connection, [host])
        more = {"answer": "there", "place": place, "about": {"project_id": "p1"}}
        wanted = Claim(uuid, row.id, host, host, 1, 1024, 0, **more)
        claims.claim(connection, ClaimRequest(request, "any", [wanted], 900, **changes))

    return work


def of_group(connection):
    (row,) = server_group_operations.listed(connection)
    return GroupRule(row["id"], [], most=9)


def claim_of_a_member(uuid, host):
    return lambda c: claim(uuid, host, group=of_group(c))(c)


def expiry(connection):
    late = sa.update(tables.allocations).values(expires_at=tables.allocations.c.created_at)
    connection.execute(late.where(tables.allocations.c.instance_uuid == PENDING))
    audit()(connection)


def reservation(name, after=None):
    """Return what holds a place on a host, or has the place of another reservation after it."""

    def work(connection):
        (row,) = compute_nodes.of_hosts(connection, ["h1"])
        place = Claim(a_uuid(name), row.id, "h1", "h1", 1, 1024, 0, place=after)
        times = {"starts_at": LATER} if after else {"ends_at": LATER}
        new = NewReservation(name, "p1", (1, 1024, 0), **times)
        reservation_operations.create(connection, new, ClaimRequest(None, "", [place], 0))

    return work


def made_standby(name, host, group=None):
    """Return what makes a standby on a host, as the keeper does."""

    def work(connection):
        (row,) = compute_nodes.of_hosts(connection, [host])
        made = Standby(a_uuid(name), 99, ["rack"], "required", (1, 1024, 0), "{}", node_id=row.id)
        standbys.settle(connection, [replace(made, host=host, group=group)])

    return work


def end_of_reservation(connection):
    over = sa.update(tables.allocations).values(expires_at=tables.allocations.c.created_at)
    connection.execute(over.where(tables.allocations.c.reservation_uuid.is_not(None)))
    past = tables.reservations.c.created_at
    connection.execute(sa.update(tables.reservations).values(ends_at=past))
    audit()(connection)


def prune(connection):
    # As claimed_groups.prune() does with each that is idle.
    connection.execute(sa.delete(tables.claimed_groups))


def order(**change):
    return lambda c: aggregate_operations.change(c, "north", Change(**change), ZONES)


TRANSACTIONS = {
    "claim": claim(a_uuid("new")),
    "standby": made_standby("a", "h1"),
    "other standby": made_standby("b", "h1"),
    "same standby": made_standby("a", "h2"),
    "standby of a member": lambda c: made_standby("a", "h2", of_group(c))(c),
    "other claim": claim(a_uuid("other")),
    "same instance": claim(a_uuid("new"), "h2"),
    "claim of a member": claim_of_a_member(a_uuid("new"), "h1"),
    "other member": claim_of_a_member(a_uuid("other"), "h2"),
    "new attempt": claim(PENDING, "h2", "req-2"),
    "repeat": claim(PENDING, request="req-1"),
    "release": lambda c: claims.release(c, [PENDING]),
    "reservation": reservation("r2"),
    "other reservation": reservation("r3"),
    "later reservation": reservation("r4", after=a_uuid("r1")),
    "reservation deletion": lambda c: reservation_operations.delete(c, ["r1"]),
    "claim of a place": claim(a_uuid("new"), place=a_uuid("r1")),
    "other claim of a place": claim(a_uuid("other"), place=a_uuid("r1")),
    "extension": lambda c: reservation_operations.extend(c, "r1", LATER + HOUR),
    "end of a reservation": end_of_reservation,
    "audit": audit(a_guest(2)),
    "other audit": audit(a_guest(3)),
    "confirmation": audit(a_guest(1)),
    "expiry": expiry,
    "node": lambda c: compute_nodes.save(c, [a_node("h1", "second")]),
    "node deletion": lambda c: transaction.delete(c, [NodeName("h1", "h1")]),
    "aggregate order": lambda c: aggregate_operations.add_hosts(c, "north", ["h1"], ZONES),
    "project order": lambda c: aggregate_operations.change(
        c, "other", Change(properties={"filter_tenant_id": "p1"}), ZONES
    ),
    "service order": lambda c: service_operations.disable(c, ["h1"]),
    "service deletion": lambda c: service_operations.delete(c, ["h1"], 60, forget_guests=True),
    "group order": lambda c: server_group_operations.add_instances(c, "web", ["seen"], force=True),
    "other group order": lambda c: server_group_operations.create(c, "db", "affinity"),
    "group deletion": lambda c: server_group_operations.delete(c, ["web"]),
    "group prune": prune,
}


@pytest.fixture
def inventory(database):
    """Return a database with hosts, aggregates, a group, a guest and a pending claim on h1."""
    serve(database, "h1", "h2")
    for host in ("h1", "h2"):
        database.write(audit(host=host, node=host))
    for name in ("north", "other"):
        zone = {"availability_zone": "north"} if name == "north" else {}
        database.write(lambda c, n=name, z=zone: aggregate_operations.create(c, n, z))
    database.write(lambda c: aggregate_operations.add_hosts(c, "other", ["h2"], ZONES))
    made = database.write(lambda c: server_group_operations.create(c, "web", "anti-affinity"))
    group_locks.ensure(database, [made["id"]])
    database.write(claim(PENDING, request="req-1"))
    database.write(reservation("r1"))
    # An instance that no claim has brought, on a host without a node.
    seen = an_instance("seen", host="h9", node="h9", created_at=utc_now())
    database.write(lambda c: c.execute(sa.insert(tables.instances).values(**seen)))
    let_pass(database, 60)
    silent = sa.update(tables.services).values(last_seen_up=None, created_at=None)
    database.write(lambda c: c.execute(silent))
    return database


class Recorded(Exception):
    """Ends a transaction that is not to be committed."""


def written(database, work):
    """Return {table: keys of the rows} that a transaction writes, and undo it."""
    found = {}

    def record(connection):
        before = snapshot(connection)
        work(connection)
        after = snapshot(connection)
        for name, keys in KEYS.items():
            old = {row["id"] for row in map(dict, before[name]) if "id" in row}
            rows = map(dict, before[name] ^ after[name])
            # A new row has got a number that another transaction's would get as well.
            found[name] = {
                (tuple(key), tuple(row[column] for column in key))
                for row in rows
                for key in keys
                if key != ["id"] or row["id"] in old
            }
        raise Recorded

    with pytest.raises(Recorded):
        database.write(record)
    return {name: keys for name, keys in found.items() if keys}


def snapshot(connection):
    """Return {table: rows}, each row as pairs."""
    return {
        table.name: {
            tuple(row._mapping.items()) for row in connection.execute(sa.select(table)).all()
        }
        for table in tables.metadata.sorted_tables
    }


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row['transaction']}-{row['excludes']}")
def test_transactions_that_exclude_each_other_write_a_row_in_common(inventory, row):
    one, other = (
        written(inventory, TRANSACTIONS[row[column]]) for column in ("transaction", "excludes")
    )
    table = row["by a row of"]
    assert one.get(table, set()) & other.get(table, set()), (one.keys(), other.keys())


def test_the_guide_has_every_kind_of_transaction():
    named = {row[column] for row in TABLE for column in ("transaction", "excludes")}
    assert named == TRANSACTIONS.keys()


def test_transactions_on_different_hosts_have_nothing_in_common(inventory):
    one, other = written(inventory, claim("a", "h1")), written(inventory, claim("b", "h2"))
    assert one.keys() == other.keys() == {"compute_nodes", "allocations"}
    assert not any(one[name] & other[name] for name in one)
