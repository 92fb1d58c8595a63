# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A claim and an order about aggregates at the same moment. MariaDB only: SQLite has one writer."""

from contextlib import closing
from uuid import uuid4

import pytest

from inventory import (
    aggregate_orders,
    claimed_nodes,
    claims,
    compute_nodes,
    migrations,
    revisions,
)
from inventory.claims import ClaimLost
from inventory.orders import Claim, Order
from inventory.refusals import InUse
from inventory.zone_changes import Zones
from tests.claimed import claimed
from tests.databases import a_node, a_uuid, open_at, save, serve

UUID = a_uuid("u1")


@pytest.fixture
def url(mariadb):
    return mariadb.create_database(f"beside_{uuid4().hex}")


@pytest.fixture
def database(url):
    """Yield a database with a host, and an aggregate that is a zone and has no hosts."""
    with closing(open_at(url)) as database:
        migrations.sync(database)
        save(database, a_node("h1"))
        serve(database, "h1")
        zone = {"availability_zone": "z1"}
        database.write(lambda c: aggregate_orders.create(c, "a", zone))
        yield database


def an_order(database):
    (row,) = database.read(compute_nodes.all_live)
    seen = database.read(revisions.current)[revisions.AGGREGATES]
    claim = Claim(
        instance_uuid=UUID,
        node_id=row.id,
        host="h1",
        node=row.hypervisor_hostname,
        vcpus=1,
        memory_mb=1,
        disk_mb=0,
    )
    return Order("req-1", "any", [claim], 900, aggregates=seen)


def into_zone(connection):
    aggregate_orders.add_host(connection, "a", "h1", Zones("nova"))


def test_a_claim_does_not_slip_past_an_order(database, url, monkeypatch):
    order, write = an_order(database), claimed_nodes.write

    def late(*arguments):
        monkeypatch.undo()
        with closing(open_at(url)) as other:
            other.write(into_zone)
        return write(*arguments)

    monkeypatch.setattr(claimed_nodes, "write", late)
    with pytest.raises(ClaimLost, match="aggregates have changed"):
        database.write(lambda c: claims.claim(c, order))
    assert claimed(database) == {}


def test_an_order_does_not_slip_past_a_claim(database):
    order = an_order(database)
    database.write(lambda c: claims.claim(c, order))
    with pytest.raises(InUse):
        database.write(into_zone)
    assert claimed(database) == {UUID: "pending"}
