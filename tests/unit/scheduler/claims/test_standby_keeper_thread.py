# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the thread that lets one scheduler keep standbys."""

import logging
from threading import Event

import sqlalchemy as sa

from inventory import leases
from inventory.claims import standbys
from inventory.claims.types import Standby
from inventory.tables import leases as table
from scheduler.claims import standby_keeper_thread
from scheduler.claims.standby_keeper_thread import LEASE_NAME, StandbyKeeperThread
from tests.databases import a_uuid
from tests.fixtures.daemons.process import PATIENCE, wait_until


class Keeper:
    """Counts how often it is to look, and may fail."""

    def __init__(self, error=None):
        self.looked, self.error = Event(), error

    def keep(self):
        self.looked.set()
        if self.error:
            raise self.error


def protect(database):
    made = Standby(a_uuid("i"), 1, ["rack"], "required", (1, 1, 1), "{}", reason="no host")
    database.write(lambda connection: standbys.settle(connection, [made]))


class Interval:
    """The time between two looks, and how often it was asked for."""

    def __init__(self, seconds=0.01):
        self.seconds, self.asked = seconds, 0

    def __call__(self):
        self.asked += 1
        return self.seconds

    def pass_by(self, times):
        before = self.asked
        assert wait_until(lambda: self.asked >= before + times)


def keeping(database, keeper, interval=None):
    found = StandbyKeeperThread(database, "s1", keeper, interval or Interval())
    found.start()
    return found


def holders(database):
    return database.read(lambda c: c.scalars(sa.select(table.c.name)).all())


def test_it_keeps_them_and_gives_up_its_lease_when_it_stops(database):
    protect(database)
    found = keeping(database, keeper := Keeper())
    assert keeper.looked.wait(PATIENCE)
    assert LEASE_NAME in holders(database)
    found.stop()
    assert LEASE_NAME not in holders(database)


def test_without_a_protected_instance_nobody_looks(database):
    found = keeping(database, keeper := Keeper())
    protect(database)
    assert keeper.looked.wait(PATIENCE)
    found.stop()


def test_while_another_one_keeps_them_it_waits(database):
    protect(database)
    leases.hold(database, LEASE_NAME, "another", 3600)
    found = keeping(database, keeper := Keeper(), interval := Interval())
    interval.pass_by(6)
    assert not keeper.looked.is_set()
    leases.release(database, LEASE_NAME, "another")
    assert keeper.looked.wait(PATIENCE)
    found.stop()


def test_a_failure_is_logged_once_and_tried_again(database, caplog):
    protect(database)
    with caplog.at_level(logging.WARNING):
        found = keeping(database, keeper := Keeper(ValueError("broken")))
        assert keeper.looked.wait(PATIENCE)
        keeper.looked.clear()
        assert keeper.looked.wait(PATIENCE)
        found.stop()
    texts = [each.getMessage() for each in caplog.records]
    assert texts.count("Standbys are not kept up to date, trying again: broken") == 1


def test_a_scheduler_may_be_told_to_keep_none(database, monkeypatch):
    monkeypatch.setattr(standby_keeper_thread, "LEAST", 0.01)
    protect(database)
    found = keeping(database, keeper := Keeper(), interval := Interval(0))
    interval.pass_by(6)
    assert not keeper.looked.is_set()
    interval.seconds = 0.01
    assert keeper.looked.wait(PATIENCE)
    found.stop()
