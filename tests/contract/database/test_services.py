# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.services and inventory.heartbeat."""

import logging
import math
import time
from datetime import timedelta
from importlib import metadata
from threading import Barrier, Thread

import pytest
import sqlalchemy as sa

from conf.daemon.log_records import Problem
from inventory import aggregates, daemon_facts, heartbeat, revisions, services
from inventory.engine import Database
from inventory.heartbeat import Heartbeat
from inventory.tables import services as table
from tests.databases import open_at, serve
from tests.fixtures.daemons.process import wait_until

UNTOUCHED = (False, None)
BY_OPERATOR = (True, "new disks")


def rows(database, binary="nova-compute"):
    return database.read(lambda c: services.all_live(c, binary))


def switch(database):
    """Return the switch of the only service and its reason."""
    (row,) = rows(database)
    return row.disabled, row.disabled_reason


def as_operator(database, **values):
    def work(connection):
        connection.execute(sa.update(table).values(**values))
        revisions.advance(connection, revisions.SERVICES)

    database.write(work)


def revision(database):
    return database.read(revisions.current)[0].get(revisions.SERVICES, 0)


def test_late_services_are_those_without_a_young_heartbeat(database):
    serve(database, "young", "old", "ahead", "silent", "timeless")
    now = rows(database)[0].now
    for host, seen, created in (
        ("old", now - timedelta(seconds=30), now),
        ("ahead", now + timedelta(seconds=30), now),
        ("silent", None, now - timedelta(seconds=40)),
        ("timeless", None, None),
    ):
        where = sa.update(table).where(table.c.host == host)
        values = {"last_seen_up": seen, "created_at": created}
        database.write(lambda c, where=where, values=values: c.execute(where.values(**values)))
    late = database.read(lambda c: services.late(c, "nova-compute", now, 20.0))
    ages = {each.host: round(services.heartbeat_age(each), -1) for each in late}
    assert ages == {"old": 30, "ahead": -30, "silent": 40, "timeless": math.inf}
    assert database.read(lambda c: services.late(c, "nova-scheduler", now, 20.0)) == []


def test_registering_creates_rows_and_returns_their_ids_in_order(database):
    ids = serve(database, "b", "a", "c")
    found = {row.id: row.host for row in rows(database)}
    assert [found[each] for each in ids] == ["b", "a", "c"]
    (row, *_) = rows(database)
    assert (row.binary, row.topic, row.disabled, row.forced_down) == (
        "nova-compute",
        "compute",
        False,
        False,
    )


def test_registering_again_keeps_counters_and_switches(database):
    (first,) = serve(database, "h1")
    as_operator(database, disabled=True, disabled_reason="new disks", forced_down=True)
    before = revision(database)
    (again,) = serve(database, "h1")
    (row,) = rows(database)
    assert again == first
    assert (row.report_count, row.forced_down, switch(database)) == (2, True, BY_OPERATOR)
    assert revision(database) == before


@pytest.mark.parametrize("old", [None, 1, 3])
def test_registering_again_says_which_version_runs_now(database, old):
    (first,) = serve(database, "h1")
    as_operator(database, version=old)
    before = revision(database)
    kind = services.COMPUTE
    again = database.write(lambda c: services.register(c, ["h1", "h2"], kind, 2))
    assert again[0] == first
    assert [row.version for row in rows(database)] == [2, 2]
    # Only of the new host.
    assert revision(database) == before + 1


def test_services_of_another_kind_are_others(database):
    serve(database, "h1")
    kind = services.SCHEDULER
    database.write(lambda c: services.register(c, ["h1"], kind, 1))
    assert len(rows(database)) == len(rows(database, "nova-scheduler")) == 1
    assert len(rows(database, None)) == 2


def test_a_beat_counts_and_is_seen_on_the_database_s_clock(database):
    ids = serve(database, "h1", "h2")
    assert database.write(lambda c: services.beat(c, ids)) == 2
    for row in rows(database):
        assert row.report_count == 2
        assert 0 <= services.heartbeat_age(row) <= 5
    assert database.write(lambda c: services.beat(c, [*ids, 999999])) == 2
    assert database.write(lambda c: services.beat(c, [])) == 0


def test_the_age_of_a_heartbeat(database):
    serve(database, "h1")
    (row,) = rows(database)
    ages = {}
    for name, values in {
        "old": {"last_seen_up": row.now - timedelta(seconds=75)},
        "ahead": {"last_seen_up": row.now + timedelta(seconds=75)},
        "never": {"last_seen_up": None, "created_at": row.now - timedelta(seconds=30)},
        "nothing": {"last_seen_up": None, "created_at": None},
    }.items():
        as_operator(database, **values)
        ages[name] = services.heartbeat_age(rows(database)[0])
    assert ages["old"] == pytest.approx(75, abs=5)
    assert ages["ahead"] == pytest.approx(-75, abs=5)
    assert ages["never"] == pytest.approx(30, abs=5)
    assert ages["nothing"] == float("inf")


def test_a_service_disables_and_enables_itself(database):
    ids = serve(database, "h1")
    database.write(lambda c: services.disable_automatically(c, ids, "libvirt is gone"))
    assert switch(database) == (True, "AUTO: libvirt is gone")
    database.write(lambda c: services.disable_automatically(c, ids, "libvirt hangs"))
    assert switch(database) == (True, "AUTO: libvirt hangs")
    database.write(lambda c: services.enable_automatically(c, ids))
    assert switch(database) == UNTOUCHED


def test_a_service_never_overrides_an_operator(database):
    ids = serve(database, "h1")
    as_operator(database, disabled=True, disabled_reason="new disks")
    database.write(lambda c: services.disable_automatically(c, ids, "libvirt is gone"))
    assert switch(database) == BY_OPERATOR
    database.write(lambda c: services.enable_automatically(c, ids))
    assert switch(database) == BY_OPERATOR
    as_operator(database, disabled=True, disabled_reason=None)
    database.write(lambda c: services.disable_automatically(c, ids, "libvirt is gone"))
    database.write(lambda c: services.enable_automatically(c, ids))
    assert switch(database) == (True, None)


def test_an_operator_who_takes_over_keeps_the_host_disabled(database):
    ids = serve(database, "h1")
    database.write(lambda c: services.disable_automatically(c, ids, "libvirt is gone"))
    as_operator(database, disabled_reason="new disks")
    database.write(lambda c: services.enable_automatically(c, ids))
    assert switch(database) == BY_OPERATOR


@pytest.mark.parametrize("reason", ["%", "_", "AUTO: ", "ü" * 400])
def test_reasons_of_any_text_and_length(database, reason):
    ids = serve(database, "h1")
    database.write(lambda c: services.disable_automatically(c, ids, reason))
    assert switch(database) == (True, f"AUTO: {reason}"[:255])
    database.write(lambda c: services.enable_automatically(c, ids))
    assert switch(database) == UNTOUCHED


def test_only_new_services_and_switches_advance_the_revision(database):
    before = revision(database)
    ids = serve(database, "h1")
    assert revision(database) == before + 1
    database.write(lambda c: services.beat(c, ids))
    database.write(lambda c: services.enable_automatically(c, ids))
    assert revision(database) == before + 1
    for _ in range(3):
        database.write(lambda c: services.disable_automatically(c, ids, "libvirt is gone"))
    assert revision(database) == before + 2


def test_deleted_services_are_gone_and_come_back_as_new_rows(database):
    (first,) = serve(database, "h1")
    database.write(lambda c: c.execute(sa.update(table).values(deleted=table.c.id)))
    assert rows(database) == []
    assert database.write(lambda c: services.beat(c, [first])) == 0
    (second,) = serve(database, "h1")
    assert second != first


def test_the_heartbeat_of_a_daemon(database):
    heart = Heartbeat(database, ["h1", "h2"], services.COMPUTE, interval=0.02)
    heart.start()
    try:
        assert [row.report_count >= 1 for row in rows(database)] == [True, True]
        assert wait_until(lambda: all(row.report_count >= 3 for row in rows(database)))
        # A row that somebody deleted comes back.
        database.write(
            lambda c: c.execute(sa.update(table).where(table.c.host == "h1").values(deleted=1))
        )
        assert wait_until(lambda: {row.host for row in rows(database)} == {"h1", "h2"})
    finally:
        heart.stop()
    counts = [row.report_count for row in rows(database)]
    heart.stop()
    assert [row.report_count for row in rows(database)] == counts


def reported(database):
    """Return what the daemon of the only compute service reports, and its row."""
    (row,) = rows(database)
    return daemon_facts.of_row(row), row


def test_a_daemon_reports_its_release_its_start_and_its_last_error(database, monkeypatch):
    monkeypatch.setattr(heartbeat, "last_problem", lambda: problems[-1])
    problems = [None]
    heart = Heartbeat(database, ["h1"], services.COMPUTE, interval=60)
    heart._created -= 3600
    heart.start()
    try:
        found, row = reported(database)
        assert found["release"] == metadata.version("berthmaster")
        assert abs((row.now - row.started_at).total_seconds() - 3600) <= 2
        assert (found["last_error"], found["last_error_at"]) == (None, None)
        text = "Cannot read mysql+pymysql://nova:geheim@db/nova: " + 300 * "x"
        problems.append(Problem(text, time.time() - 90))
        heart._beat()
        found, row = reported(database)
        assert found["last_error"].startswith("Cannot read mysql+pymysql://***@db/nova: xxx")
        assert len(found["last_error"]) == 255
        assert abs((row.now - row.last_error_at).total_seconds() - 90) <= 2
        before = row
        heart._beat()
        assert reported(database)[1].last_error_at == before.last_error_at
    finally:
        heart.stop()
    # The error of the process before stays until the next process has one.
    problems.append(None)
    again = Heartbeat(database, ["h1"], services.COMPUTE, interval=60)
    again.start()
    again.stop()
    found, row = reported(database)
    assert (found["last_error"], row.last_error_at) == (before.last_error, before.last_error_at)
    assert row.started_at > before.started_at


def test_a_daemon_of_an_earlier_release_is_not_taken_for_the_later_one_before_it(database):
    (number,) = serve(database, "h1")
    assert reported(database)[0]["release"] is not None
    moment = reported(database)[1].last_seen_up - timedelta(seconds=10)
    as_operator(database, reported_at=moment)
    # Its statements know no other columns than these.
    database.write(lambda c: services.beat(c, [number]))
    assert {*reported(database)[0].values()} == {None}


class Moody(Database):
    """A database that fails when it is told to."""

    failing = False

    def write(self, work):
        if self.failing:
            raise ConnectionError("no route")
        return super().write(work)


def test_a_heart_survives_a_database_that_is_away(database, caplog):
    moody = Moody(database.engine)
    heart = Heartbeat(moody, ["h1"], services.COMPUTE, interval=0.02)
    with caplog.at_level(logging.INFO, logger="inventory.heartbeat"):
        heart.start()
        try:
            moody.failing = True
            assert wait_until(lambda: "every second or so: no route" in caplog.text)
            moody.failing = False
            assert wait_until(lambda: "Heartbeat recovered" in caplog.text)
        finally:
            heart.stop()
    assert caplog.text.count("Heartbeat failed") == 1


def test_a_heart_that_was_never_started_can_be_stopped(database):
    Heartbeat(database, ["h1"], services.COMPUTE, interval=1).stop()
    assert rows(database) == []


@pytest.mark.parametrize(
    ("age", "forced_down", "up"),
    [
        (0, False, True),
        (60, False, True),
        (75, False, False),
        (-75, False, False),
        (0, True, False),
    ],
)
def test_whether_a_service_is_up(database, age, forced_down, up):
    serve(database, "h1")
    (row,) = rows(database)
    as_operator(database, last_seen_up=row.now - timedelta(seconds=age), forced_down=forced_down)
    assert services.is_up(rows(database)[0], limit=65) == up


def test_many_agents_register_at_once(url, database):
    errors = []

    def register(number):
        own = open_at(url)
        try:
            serve(own, f"h{number}")
        except Exception as error:
            errors.append(error)
        finally:
            own.close()

    threads = [Thread(target=register, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(rows(database)) == 6
    assert revision(database) == 6


def test_workers_of_one_daemon_register_at_once(url, database):
    found, errors, together = set(), [], Barrier(6)

    def begin():
        own = open_at(url)
        heart = Heartbeat(own, ["h1"], services.SCHEDULER, interval=60)
        together.wait()
        try:
            heart.start()
            found.update(heart.ids)
        except Exception as error:
            errors.append(error)
        finally:
            heart.stop()
            own.close()

    threads = [Thread(target=begin) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    (row,) = rows(database, "nova-scheduler")
    assert (found, row.report_count) == ({row.id}, 6)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, (False, None)),
        ({"disabled": True}, (True, None)),
        ({"disabled": True, "disabled_reason": "new disks"}, BY_OPERATOR),
        ({"maintenance": ""}, (True, "in maintenance")),
        ({"maintenance": "lamp"}, (True, "in maintenance: lamp")),
        ({"maintenance": "lamp", "disabled": True}, (True, "in maintenance: lamp; disabled")),
        (
            {"maintenance": "", "disabled": True, "disabled_reason": "AUTO: gone"},
            (True, "in maintenance; disabled: AUTO: gone"),
        ),
    ],
)
def test_whether_a_service_is_switched_off_and_why(database, values, expected):
    serve(database, "h1")
    if values:
        as_operator(database, **values)
    (row,) = rows(database)
    assert services.switched_off(row) == expected
    assert services.status_and_state(row, 60) == ("disabled" if expected[0] else "enabled", "up")
    # The same rule in SQL.
    on = sa.select(table.c.host).where(services.switched_on())
    assert database.read(lambda c: c.scalars(on).all()) == ([] if expected[0] else ["h1"])


def test_a_service_is_found_whatever_the_letter_case_of_its_host(database):
    serve(database, "Alpha", "beta")
    for name in ("Alpha", "alpha", " ALPHA "):
        assert database.read(lambda c, n=name: services.find(c, n, "nova-compute")).host == "Alpha"
    for name in ("alph", "%", ""):
        assert database.read(lambda c, n=name: services.find(c, n, "nova-compute")) is None
    assert database.read(lambda c: services.find(c, "Alpha", "nova-scheduler")) is None


def test_of_two_that_differ_by_letter_case_the_one_spelled_so_is_found(database):
    if database.engine.dialect.name != "sqlite":
        # MariaDB's keys let only one of them in.
        return
    serve(database, "alpha", "ALPHA")
    for name in ("alpha", "ALPHA"):
        assert database.read(lambda c, n=name: services.find(c, n, "nova-compute")).host == name


def test_services_are_listed_as_operators_see_them(database):
    (first, _) = serve(database, "h1", "h2")
    database.write(lambda c: services.register(c, ["h1"], services.SCHEDULER, 1))
    database.write(lambda c: aggregates.create(c, "x", ["h2"], {"availability_zone": "north"}))
    database.write(lambda c: aggregates.create(c, "y", ["h1"], {"ssd": "true"}))
    listed = database.read(lambda c: services.listed(c, 60, "nova"))
    assert [(row["binary"], row["host"], row["zone"]) for row in listed] == [
        ("nova-compute", "h1", "nova"),
        ("nova-compute", "h2", "north"),
        ("nova-scheduler", "h1", "internal"),
    ]
    row = listed[0]
    assert (row["id"], row["status"], row["state"]) == (first, "enabled", "up")
    assert (row["disabled_reason"], row["forced_down"]) == (None, False)
    assert row["updated_at"].count(":") == 2
    assert listed[2]["updated_at"] == ""
    only = database.read(lambda c: services.listed(c, 60, "nova", "nova-scheduler"))
    assert [row["binary"] for row in only] == ["nova-scheduler"]


def test_services_of_an_older_release_are_named(database):
    for host, version in (("h1", 1), ("h2", 2), ("h3", 3)):
        database.write(
            lambda c, host=host, version=version: services.register(
                c, [host], services.COMPUTE, version
            )
        )
    database.write(lambda c: services.register(c, ["h4"], services.SCHEDULER, 1))
    binary = services.COMPUTE[0]
    assert database.read(lambda c: services.older_than(c, binary, 3)) == ["h1", "h2"]
    assert database.read(lambda c: services.older_than(c, binary, 1)) == []
