# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.audit_log."""

import pytest
import sqlalchemy as sa

from inventory import audit_log, services, stored_documents, tables
from inventory.audit_log import Actor, Changed, EntryFilter
from inventory.operations import aggregate_operations, service_operations
from inventory.operations.aggregate_operations import ZoneRules
from tests.databases import execute, serve

ALICE = Actor("alice", "console", "host disable")


@pytest.fixture
def acted(database):
    """Return what does work in the name of an operator."""
    return lambda work, actor=ALICE: database.write(lambda c: work(audit_log.acting(c, actor)))


def entries(database, limit=100, **wanted):
    return database.read(lambda c: audit_log.search(c, EntryFilter(**wanted), limit))


def log(acted, name, hosts, **after):
    acted(lambda c: audit_log.record(c, [Changed("host", name, {}, after, hosts)]))


def test_an_entry_says_who_did_what_to_what_and_when(database, acted):
    serve(database, "h1")
    acted(lambda c: service_operations.disable(c, ["h1"], "für 🔧"))
    (found,) = entries(database)
    newest = sa.select(sa.func.max(tables.services.c.updated_at))
    now = str(database.read(lambda c: c.scalar(newest)))
    assert found.pop("changed_at")[:16] == now[:16]
    del found["id"]
    assert found == {
        "operator": "alice",
        "machine": "console",
        "command": "host disable",
        "kind": "host",
        "name": "h1",
        "hosts": ["h1"],
        "before": {"disabled": False, "disabled_reason": None},
        "after": {"disabled": True, "disabled_reason": "für 🔧"},
    }


def test_what_is_rolled_back_or_refused_leaves_none(database, acted):
    serve(database, "h1")

    def failing(connection):
        service_operations.disable(connection, ["h1"])
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        acted(failing)
    assert entries(database) == []


def test_before_is_what_others_have_left(database, acted):
    serve(database, "h1", "h2")
    rows, _ = database.read(lambda c: services.find_all(c, ["h1", "h2"], services.COMPUTE[0]))
    # Another operator is quicker.
    database.write(lambda c: service_operations.disable(c, ["h1"], "fans"))
    database.write(lambda c: service_operations.disable(c, ["h2"]))
    acted(lambda c: services.switch(c, rows, disabled=True, disabled_reason=None))
    (found,) = entries(database)
    assert (found["before"], found["after"]) == (
        {"disabled_reason": "fans"},
        {"disabled_reason": None},
    )


def test_only_services_that_an_agent_has_switched_have_entries(database, acted):
    ids = serve(database, "h1", "h2")
    database.write(lambda c: service_operations.disable(c, ["h2"], "by hand"))
    acted(lambda c: services.disable_automatically(c, ids, "no libvirt"))
    acted(lambda c: services.disable_automatically(c, ids, "no libvirt"))
    acted(lambda c: services.enable_automatically(c, ids))
    enabled, disabled = entries(database)
    assert (disabled["name"], disabled["after"]["disabled_reason"]) == ("h1", "AUTO: no libvirt")
    assert enabled["after"] == {"disabled": False, "disabled_reason": None}


@pytest.mark.parametrize("name", ["h1", "H%1", "h_1", "h\\1", 'h"1', "hé1"])
def test_a_host_is_found_by_its_whole_name(database, acted, name):
    log(acted, "a", ["h", name, f"{name}1", f"1{name}"], x=1)
    log(acted, "b", [f"{name}1", f"1{name}", "h2", "h21", "hx1"], x=1)
    assert [each["name"] for each in entries(database, host=name)] == ["a"]


def test_many_hosts_are_one_entry_of_their_aggregate(database, acted):
    hosts = [f"a-rather-long-name-of-a-host-{number:04}" for number in range(1200)]
    serve(database, *hosts)
    database.write(lambda c: aggregate_operations.create(c, "all", {}))
    acted(lambda c: aggregate_operations.add_hosts(c, "all", hosts, ZoneRules("nova")))
    acted(lambda c: service_operations.disable(c, hosts))
    (found,) = entries(database, aggregate="all")
    assert found["after"] == {"hosts": hosts}
    assert len(entries(database, limit=2000)) == 1201
    assert [each["kind"] for each in entries(database, host=hosts[7])] == ["host", "aggregate"]


def test_old_entries_are_deleted(database, acted):
    for number in range(1203):
        log(acted, f"old{number}", [], x=1)
    execute(database, "UPDATE audit_log SET changed_at = '2020-01-01 00:00:00'")
    log(acted, "new", [], x=1)
    while database.write(lambda c: audit_log.prune(c, 3600)):
        pass
    assert [each["name"] for each in entries(database)] == ["new"]


def test_of_two_who_delete_a_service_one_does_it(database):
    ids = serve(database, "h1", "h2")
    counts = [database.write(lambda c: services.delete(c, ids)) for _ in range(2)]
    assert counts == [2, 0]


@pytest.mark.parametrize("text", ['{"zone": "so', "7", ""])
def test_an_unreadable_entry_costs_no_other(database, acted, text, caplog):
    stored_documents.warn.cache_clear()
    for name in ("h1", "h2", "h3"):
        log(acted, name, [name], reason=name)
    ids = {each["name"]: each["id"] for each in entries(database)}
    for column in ("hosts", "after"):
        broken = f"UPDATE audit_log SET {column} = :text WHERE name = 'h2'"
        execute(database, broken, text=text)
    for _ in range(2):
        found = {each["name"]: each for each in entries(database)}
    assert (found["h1"]["after"], found["h3"]["hosts"]) == ({"reason": "h1"}, ["h3"])
    assert (found["h2"]["after"], found["h2"]["hosts"]) == ({}, [])
    said = f"Column after of entry {ids['h2']} of the audit log cannot be read"
    assert caplog.text.count(said) == 1
