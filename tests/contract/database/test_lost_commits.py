# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Commits of which nobody hears whether they have taken place."""

import pytest
import sqlalchemy as sa
from oslo_db import exception

from inventory import aggregates, audit_log, services, tables
from inventory.audit_log import Actor, EntryFilter, acting
from inventory.errors import InUse
from inventory.operations import aggregate_operations, server_group_operations, service_operations
from inventory.operations.aggregate_operations import Change, ZoneRules
from tests.databases import serve

ZONES = ZoneRules("nova")
ORDERS = {
    "create an aggregate": lambda c: aggregate_operations.create(c, "new", {}),
    "delete an aggregate": lambda c: aggregate_operations.delete(c, ["old"]),
    "add a host": lambda c: aggregate_operations.add_hosts(c, "old", ["h1"], ZONES),
    "remove a host": lambda c: aggregate_operations.remove_hosts(c, "full", ["h1"], ZONES),
    "unset a property": lambda c: aggregate_operations.change(
        c, "full", Change(without=["k"]), ZONES
    ),
    "create a group": lambda c: server_group_operations.create(c, "new", "affinity"),
    "delete a group": lambda c: server_group_operations.delete(c, ["web"]),
    "delete a service": lambda c: service_operations.delete(c, ["h2"], 60),
}


@pytest.fixture
def inventory(database):
    serve(database, "h1", "h2")
    never = sa.update(tables.services).values(last_seen_up=None, created_at=None)
    database.write(lambda c: c.execute(never))
    for name in ("old", "full"):
        database.write(lambda c, n=name: aggregate_operations.create(c, n, {"k": "v"}))
    database.write(lambda c: aggregate_operations.add_hosts(c, "full", ["h1"], ZONES))
    database.write(lambda c: server_group_operations.create(c, "web", "affinity"))
    return database


@pytest.fixture
def lose_answers(inventory):
    """Return what lets the answers to the next commits get lost: True where it takes place."""
    fates = []

    def commit(connection):
        if fates:
            dbapi = connection.connection.dbapi_connection
            dbapi.commit() if fates.pop(0) else dbapi.rollback()
            raise exception.DBConnectionError("lost in the middle of a commit")

    sa.event.listen(inventory.engine, "commit", commit)
    yield fates.extend
    sa.event.remove(inventory.engine, "commit", commit)


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("fates", [[True], [False], [False, True]])
def test_an_order_knows_its_own_work_again(inventory, lose_answers, order, fates):
    lose_answers(fates)
    assert inventory.write_once(order)
    with pytest.raises(Exception, match=r"there|in use|already|not in|no property"):
        inventory.write_once(order)


def test_an_order_has_one_entry_in_the_audit_log(inventory, lose_answers):
    actor = Actor("alice", "console", "aggregate create")
    lose_answers([False, True])
    inventory.write_once(lambda c: aggregate_operations.create(acting(c, actor), "new", {}))
    found = inventory.read(lambda c: audit_log.search(c, EntryFilter(), 10))
    assert [each["name"] for each in found] == ["new"]


def test_an_order_does_not_take_another_s_work_for_its_own(inventory, lose_answers):
    inventory.write_once(lambda c: aggregate_operations.create(c, "new", {}))
    lose_answers([True])
    with pytest.raises(InUse):
        inventory.write_once(lambda c: aggregate_operations.create(c, "new", {}))
    assert len(inventory.read(aggregates.everything)) == 3


def test_what_an_order_returns_is_that_of_the_attempt_that_counts(inventory, lose_answers):
    lose_answers([False, False])
    done = inventory.write_once(lambda c: aggregate_operations.create(c, "new", {}))
    shown = inventory.read(lambda c: aggregates.show(c, "new"))
    assert (done["id"], done["uuid"]) == (shown["id"], shown["uuid"])


def test_keys_of_yesterday_are_deleted(inventory):
    keys = sa.select(tables.idempotency_keys)
    inventory.write_once(services.all_live)
    old = sa.update(tables.idempotency_keys).values(created_at=sa.text("'2020-01-01 00:00:00'"))
    inventory.write(lambda c: c.execute(old))
    inventory.write_once(services.all_live)
    assert len(inventory.read(lambda c: c.execute(keys).all())) == 1
