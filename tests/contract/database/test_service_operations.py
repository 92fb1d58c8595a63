# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.operations.service_operations: switches, and the end of a service."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from inventory import aggregates, compute_nodes, heartbeat, instances, revisions, services, tables
from inventory.claims import existing
from inventory.errors import InUse, Malformed, NotFound, OperationRefused
from inventory.operations import service_operations
from tests.claimed import claim
from tests.databases import a_node, an_instance, save, serve

LIMIT = 60
LAMP = "new lamp"


def revision(database, name=revisions.SERVICES):
    return database.read(revisions.current)[0].get(name, 0)


def service(database, host="h1", binary="nova-compute"):
    return database.read(lambda c: services.find(c, host, binary))


def silence(database, seconds=300):
    """Let the last heartbeat of all services be long ago."""
    for row in database.read(services.all_live):
        seen = row.now - timedelta(seconds=seconds)
        change = sa.update(tables.services).where(tables.services.c.id == row.id)
        database.write(lambda c, s=change, t=seen: c.execute(s.values(last_seen_up=t)))


def deleted(database, host="h1", **options):
    return database.write(lambda c: service_operations.delete(c, [host], LIMIT, **options))[0]


def own(database, *rows, host="h1", node="h1"):
    """Write instances as whoever manages them does."""
    values = [{"host": host, "node": node, "managed": True, **each} for each in rows]
    database.write(lambda c: c.execute(sa.insert(tables.instances), values))


def see(database, *rows, host="h1", node="h1"):
    """Write instances as an agent that sees them does."""
    database.write(lambda c: instances.replace(c, host, node, rows))


def test_a_host_is_disabled_for_a_reason_and_enabled_again(database):
    serve(database, "h1", "h2")
    before = revision(database)
    (done,) = database.write(lambda c: service_operations.disable(c, ["h1"], f" {LAMP} "))
    assert done == {
        "host": "h1",
        "binary": "nova-compute",
        "status": "disabled",
        "disabled_reason": LAMP,
        "maintenance_mode": "off",
        "forced_down": False,
        "note": "",
    }
    assert revision(database) == before + 1
    assert services.switched_off(service(database)) == (True, LAMP)
    assert services.switched_off(service(database, "h2")) == (False, None)
    (done,) = database.write(lambda c: service_operations.enable(c, ["h1"]))
    assert (done["status"], done["disabled_reason"], done["note"]) == ("enabled", None, "")
    assert revision(database) == before + 2


@pytest.mark.parametrize("reason", [None, "", "  "])
def test_without_a_reason_none_is_stored(database, reason):
    serve(database, "h1")
    database.write(lambda c: service_operations.disable(c, ["h1"], "first"))
    database.write(lambda c: service_operations.disable(c, ["h1"], reason))
    row = service(database)
    assert (row.disabled, row.disabled_reason) == (True, None)


@pytest.mark.parametrize(
    ("reason", "problem"),
    [
        ("x" * 256, "reason: has 256 characters, at most 255 are allowed"),
        ("two\nlines", "reason: has characters that cannot be printed on one line"),
        ("\ud800", "reason: has characters that cannot be printed on one line"),
    ],
)
def test_reasons_that_do_not_fit_are_refused(database, reason, problem):
    serve(database, "h1")
    for order in (service_operations.disable, service_operations.begin_maintenance):
        with pytest.raises(Malformed) as caught:
            database.write(lambda c, order=order: order(c, ["h1"], reason))
        assert str(caught.value) == problem
    assert services.switched_off(service(database)) == (False, None)


@pytest.mark.parametrize("reason", ["AUTO: no", "auto: no"])
def test_an_operator_cannot_speak_for_the_agent(database, reason):
    serve(database, "h1")
    with pytest.raises(Malformed, match="'AUTO: ' begins the reasons that agents write"):
        database.write(lambda c: service_operations.disable(c, ["h1"], reason))


@pytest.mark.parametrize("reason", ["ü" * 255, "%_'\\", "x" * 255])
def test_reasons_that_fit_are_kept_whole(database, reason):
    serve(database, "h1")
    database.write(lambda c: service_operations.disable(c, ["h1"], reason))
    database.write(lambda c: service_operations.begin_maintenance(c, ["h1"], reason))
    row = service(database)
    assert (row.disabled_reason, row.maintenance) == (reason, reason)


def test_to_enable_what_its_agent_disabled_is_allowed_and_commented(database):
    ids = serve(database, "h1")
    database.write(lambda c: services.disable_automatically(c, ids, "libvirt hangs"))
    (done,) = database.write(lambda c: service_operations.enable(c, ["h1"]))
    assert done["status"] == "enabled"
    assert done["note"] == (
        "the agent of the host had disabled it (libvirt hangs), and will do so again if its next"
        " audit fails"
    )
    database.write(lambda c: services.disable_automatically(c, ids, "libvirt hangs"))
    assert service(database).disabled_reason == "AUTO: libvirt hangs"


def test_to_disable_what_its_agent_disabled_makes_it_the_operators_word(database):
    ids = serve(database, "h1")
    database.write(lambda c: services.disable_automatically(c, ids, "libvirt hangs"))
    database.write(lambda c: service_operations.disable(c, ["h1"], LAMP))
    database.write(lambda c: services.enable_automatically(c, ids))
    assert service(database).disabled_reason == LAMP


def test_maintenance_is_a_switch_of_its_own(database):
    ids = serve(database, "h1")
    before = revision(database)
    (done,) = database.write(lambda c: service_operations.begin_maintenance(c, ["h1"], LAMP))
    assert (done["status"], done["disabled_reason"], done["maintenance_mode"]) == (
        "disabled",
        f"in maintenance: {LAMP}",
        "on",
    )
    assert revision(database) == before + 1
    # The agent's own switch neither ends it nor is it in its way.
    database.write(lambda c: services.disable_automatically(c, ids, "libvirt is gone"))
    assert services.switched_off(service(database)) == (
        True,
        f"in maintenance: {LAMP}; disabled: AUTO: libvirt is gone",
    )
    database.write(lambda c: services.enable_automatically(c, ids))
    (done,) = database.write(lambda c: service_operations.enable(c, ["h1"]))
    assert (done["status"], done["note"]) == (
        "disabled",
        "still in maintenance, which ends with 'host maintenance off'",
    )
    (done,) = database.write(lambda c: service_operations.end_maintenance(c, ["h1"]))
    assert (done["status"], done["maintenance_mode"], done["note"]) == ("enabled", "off", "")


def test_maintenance_without_a_reason_and_on_a_disabled_host(database):
    serve(database, "h1")
    database.write(lambda c: service_operations.disable(c, ["h1"]))
    database.write(lambda c: service_operations.begin_maintenance(c, ["h1"]))
    assert service(database).maintenance == ""
    assert services.switched_off(service(database)) == (True, "in maintenance; disabled")
    (done,) = database.write(lambda c: service_operations.end_maintenance(c, ["h1"]))
    assert (done["status"], done["note"]) == (
        "disabled",
        "still disabled, which ends with 'host enable'",
    )


def test_forced_down_beats_a_living_heart_until_it_is_unset(database):
    serve(database, "h1")
    before = revision(database)
    assert database.write(lambda c: service_operations.force_down(c, ["h1"]))[0]["forced_down"]
    assert not services.is_up(service(database), LIMIT)
    assert (
        database.write(lambda c: service_operations.force_down(c, ["h1"], False))[0]["forced_down"]
        is False
    )
    assert services.is_up(service(database), LIMIT)
    assert revision(database) == before + 2


def test_an_order_that_changes_nothing_advances_no_revision(database):
    serve(database, "h1")
    for order in (
        lambda c: service_operations.disable(c, ["h1"], LAMP),
        lambda c: service_operations.begin_maintenance(c, ["h1"]),
        lambda c: service_operations.force_down(c, ["h1"]),
    ):
        database.write(order)
        before = revision(database)
        database.write(order)
        assert revision(database) == before


def test_hosts_are_found_whatever_their_letter_case(database):
    serve(database, "UbuntuStack")
    assert (
        database.write(lambda c: service_operations.disable(c, [" ubuntustack"]))[0]["host"]
        == "UbuntuStack"
    )


ORDERS = {
    "enable": service_operations.enable,
    "disable": service_operations.disable,
    "begin_maintenance": service_operations.begin_maintenance,
    "end_maintenance": service_operations.end_maintenance,
    "force_down": service_operations.force_down,
    "delete": lambda c, hosts: service_operations.delete(c, hosts, LIMIT),
}


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("host", ["nowhere", "", "%", "h", "h1' OR '1'='1"])
def test_hosts_that_there_are_none_of(database, order, host):
    serve(database, "h1")
    before = revision(database)
    with pytest.raises(NotFound, match="there is no service nova-compute on a host"):
        database.write(lambda c: order(c, [host]))
    assert revision(database) == before


def test_only_compute_services_have_switches(database):
    database.write(lambda c: services.register(c, ["h1"], services.SCHEDULER, 1))
    for order in (
        lambda c: service_operations.enable(c, ["h1"], "nova-scheduler"),
        lambda c: service_operations.disable(c, ["h1"], None, "nova-scheduler"),
        lambda c: service_operations.force_down(c, ["h1"], True, "nova-scheduler"),
    ):
        with pytest.raises(
            Malformed, match="binary: nova-scheduler cannot be disabled or forced down"
        ):
            database.write(order)


@pytest.fixture
def two_hosts(database):
    """Two silent hosts of one node each, in one aggregate."""
    serve(database, "h1", "h2")
    save(database, a_node("h1"), a_node("h2"))
    database.write(lambda c: aggregates.create(c, "north", ["h1", "h2"], {}))
    silence(database)
    return database


def live_hosts(database):
    return {
        "services": {row.host for row in database.read(services.all_live)},
        "nodes": {row.host for row in database.read(compute_nodes.all_live)},
        "aggregate": set(database.read(aggregates.everything)[0].hosts),
    }


BOTH = {kind: {"h1", "h2"} for kind in ("services", "nodes", "aggregate")}
ONE = {kind: {"h2"} for kind in ("services", "nodes", "aggregate")}


def test_a_deleted_service_takes_its_host_with_it(two_hosts):
    before = {name: revision(two_hosts, name) for name in ("services", "aggregates")}
    (node,) = two_hosts.read(lambda c: compute_nodes.of_hosts(c, ["h1"]))
    done = deleted(two_hosts, "H1")
    assert done == {
        "host": "h1",
        "binary": "nova-compute",
        "deleted_nodes": ["h1"],
        "dropped_pending_claims": [],
    }
    assert live_hosts(two_hosts) == ONE
    assert {name: revision(two_hosts, name) - each for name, each in before.items()} == {
        "services": 1,
        "aggregates": 1,
    }
    (gone,) = (
        row
        for row in two_hosts.read(lambda c: c.execute(sa.select(tables.compute_nodes)).all())
        if row.host == "h1"
    )
    # How schedulers notice it.
    assert gone.deleted == gone.id
    assert gone.generation > node.generation


def test_a_deleted_host_may_come_back(two_hosts):
    deleted(two_hosts)
    serve(two_hosts, "h1")
    save(two_hosts, a_node("h1"))
    assert live_hosts(two_hosts)["services"] == live_hosts(two_hosts)["nodes"] == {"h1", "h2"}


def test_a_host_of_no_aggregate_tells_nobody_of_a_change_of_aggregates(database):
    serve(database, "h1")
    silence(database)
    before = revision(database, revisions.AGGREGATES)
    assert deleted(database)["deleted_nodes"] == []
    assert revision(database, revisions.AGGREGATES) == before


@pytest.mark.parametrize("forced", [False, True])
def test_a_living_service_is_not_deleted(two_hosts, forced):
    ids = [service(two_hosts).id]
    two_hosts.write(lambda c: services.beat(c, ids))
    two_hosts.write(lambda c: service_operations.force_down(c, ["h1"], forced))
    with pytest.raises(InUse, match=r"was alive \d s ago and would register again: stop it"):
        deleted(two_hosts)
    assert live_hosts(two_hosts) == BOTH


def a_migration(**changes):
    return {
        "uuid": "m1",
        "instance_uuid": "u1",
        "migration_type": "evacuation",
        "status": "migrating",
        "source_compute": "h1",
        "source_node": "h1",
        "dest_compute": "h3",
        "dest_node": "h3",
        **changes,
    }


def test_a_host_that_is_needed_is_not_deleted(two_hosts):
    own(two_hosts, an_instance("u1"), an_instance("u2"))
    see(two_hosts, an_instance("u3"))
    two_hosts.write(
        lambda c: c.execute(sa.insert(tables.migrations), [a_migration(instance_uuid="u3")])
    )
    for options in ({}, {"forget_guests": True}):
        with pytest.raises(InUse) as caught:
            deleted(two_hosts, **options)
        assert str(caught.value).startswith(
            "host h1 is needed by 2 managed instances, 1 guest that its agent saw last and 1"
            " migration under way: move the instances and wait for the migrations first"
        )
    assert live_hosts(two_hosts) == BOTH


def test_what_is_claimed_on_a_host_goes_with_it(two_hosts):
    (node,) = two_hosts.read(lambda c: compute_nodes.of_hosts(c, ["h1"]))
    (other,) = two_hosts.read(lambda c: compute_nodes.of_hosts(c, ["h2"]))
    claim(two_hosts, "u1", node)
    claim(two_hosts, "u2", other)
    deleted(two_hosts)
    assert {row.host for row in two_hosts.read(existing.as_instances)} == {"h2"}
    (dead,) = two_hosts.read(lambda c: compute_nodes.by_ids(c, [node.id]))
    assert (bool(dead.deleted), dead.claims) == (True, 0)


def test_each_alone_keeps_a_host(two_hosts):
    def managed():
        own(two_hosts, an_instance("u1"))

    def moving():
        # It is seen on its way to another host.
        see(two_hosts, an_instance("u1"), host="h2", node="h2")
        two_hosts.write(lambda c: c.execute(sa.insert(tables.migrations), [a_migration()]))

    def seen():
        see(two_hosts, an_instance("u1"))

    for what, keep in (
        ("1 managed instance, 0 guests that its agent saw last and 0", managed),
        ("0 managed instances, 0 guests that its agent saw last and 1", moving),
        ("0 managed instances, 1 guest that its agent saw last and 0", seen),
    ):
        keep()
        with pytest.raises(InUse, match=what):
            deleted(two_hosts)
        for table in (tables.instances, tables.migrations):
            two_hosts.write(lambda c, table=table: c.execute(sa.delete(table)))
    deleted(two_hosts)
    assert live_hosts(two_hosts) == ONE


def test_guests_of_a_lost_host_are_forgotten_on_request(two_hosts):
    see(two_hosts, an_instance("u1"))
    with pytest.raises(InUse, match="give up the guests with --forget-guests if the host is lost"):
        deleted(two_hosts)
    deleted(two_hosts, forget_guests=True)
    assert live_hosts(two_hosts) == ONE
    assert two_hosts.read(instances.all_live) == []


def test_released_and_forgotten_things_keep_nothing(two_hosts):
    own(two_hosts, an_instance("u1", vm_state="shelved_offloaded"))
    see(two_hosts, an_instance("u2"), host="h2", node="h2")
    two_hosts.write(
        lambda c: c.execute(
            sa.insert(tables.migrations),
            [
                a_migration(uuid="m1", status="confirmed"),
                a_migration(uuid="m2", instance_uuid="gone"),
            ],
        )
    )
    deleted(two_hosts)
    assert live_hosts(two_hosts) == ONE


def test_a_scheduler_s_service_leaves_the_host_alone(two_hosts):
    two_hosts.write(lambda c: services.register(c, ["h1"], services.SCHEDULER, 1))
    see(two_hosts, an_instance("u1"))
    silence(two_hosts)
    done = deleted(two_hosts, binary="nova-scheduler")
    assert done["deleted_nodes"] == []
    assert live_hosts(two_hosts) == BOTH
    assert service(two_hosts, "h1", "nova-scheduler") is None


def test_a_service_that_somebody_else_deletes_meanwhile_ends_the_whole_command(
    two_hosts, monkeypatch
):
    silence(two_hosts)
    # The rows as they were before somebody else deleted one of them.
    rows = two_hosts.read(lambda c: services.find_all(c, ["h1", "h2"], "nova-compute"))
    two_hosts.write(lambda c: service_operations.delete(c, ["h1"], LIMIT))
    monkeypatch.setattr(services, "find_all", lambda *_: rows)
    with pytest.raises(NotFound, match="on h1, h2: one was deleted by somebody else just now"):
        two_hosts.write(lambda c: service_operations.delete(c, ["h1", "h2"], LIMIT))
    assert live_hosts(two_hosts) == ONE


def test_every_refusal_is_one_line(two_hosts):
    for order in (
        lambda c: service_operations.delete(c, ["nowhere"], LIMIT),
        lambda c: service_operations.disable(c, ["h1"], "x" * 300),
    ):
        with pytest.raises(OperationRefused) as caught:
            two_hosts.write(order)
        assert "\n" not in str(caught.value)


def test_the_heartbeat_registers_a_deleted_service_again(two_hosts):
    deleted(two_hosts)
    heart = heartbeat.Heartbeat(two_hosts, ["h1"], services.COMPUTE, interval=60)
    heart.start()
    heart.stop()
    assert live_hosts(two_hosts)["services"] == {"h1", "h2"}


def test_a_service_is_shown_with_all_that_is_known_of_it(database):
    serve(database, "h1")
    database.write(lambda c: aggregates.create(c, "n", ["h1"], {"availability_zone": "north"}))
    database.write(lambda c: services.register(c, ["controller"], services.SCHEDULER, 7))
    database.write(lambda c: service_operations.begin_maintenance(c, ["h1"], "firmware"))

    def show(host, *binary):
        return database.read(lambda c: service_operations.show(c, host, 60, "nova", *binary))

    shown = show(" H1 ")
    assert (shown["host"], shown["zone"], shown["topic"]) == ("h1", "north", "compute")
    assert (shown["status"], shown["state"]) == ("disabled", "up")
    assert (shown["disabled"], shown["maintenance_mode"]) == (False, "on")
    assert shown["disabled_reason"] == "in maintenance: firmware"
    assert (shown["report_count"], 0 <= shown["heartbeat_age"] < 60) == (1, True)
    shown = show("controller", "nova-scheduler")
    assert (shown["zone"], shown["version"], shown["last_seen_up"]) == ("internal", 7, "")
    for asked in (("h2",), ("controller",), ("h1", "nova-scheduler")):
        with pytest.raises(NotFound, match="there is no service nova-"):
            show(*asked)


def test_many_hosts_are_switched_in_one_operation(database):
    hosts = [f"h{number}" for number in range(1200)]
    serve(database, *hosts)
    before = revision(database)
    asked = ["H7", *hosts, " h7"]
    rows = database.write(lambda c: service_operations.disable(c, asked, LAMP))
    assert sorted(row["host"] for row in rows) == sorted(hosts)
    assert {(row["status"], row["disabled_reason"]) for row in rows} == {("disabled", LAMP)}
    assert revision(database) == before + 1
    # Only what differs is written.
    rows = database.write(lambda c: service_operations.disable(c, hosts[:2], LAMP))
    assert ([row["host"] for row in rows], revision(database)) == (hosts[:2], before + 1)
