# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.operators.cli.plan_move, with rows as agents write them."""

import pytest

from inventory import instances
from inventory.database_errors import DatabaseUnavailable
from scheduler.operators.cli import plan_move
from scheduler.operators.cli.plan_move import MoveWatch
from scheduler.operators.cli.plan_program import MoveFailed
from scheduler.operators.planning.types import COLD, EVACUATION, LIVE, Place, PlannedMove
from tests.databases import a_node, an_instance, save

HOSTS = ("old", "new")


@pytest.fixture
def report(database):
    """A function that writes the state and task of an instance on some hosts, and on no other."""
    save(database, *map(a_node, HOSTS))

    def write(**places):
        for host in HOSTS:
            state, _, task = places.get(host, "").partition("/")
            rows = [an_instance("a", vm_state=state, task_state=task or None)] if state else []
            database.write(lambda c, at=(host, host, rows): instances.replace(c, *at))

    return write


def a_watch(database, kind=LIVE, waits_for_task=False):
    move = PlannedMove("a", Place("old", "old"), Place("new", "new"), 1024, 10, kind, "")
    return MoveWatch(database, move, waits_for_task)


@pytest.fixture
def no_time(monkeypatch):
    """No time for reports, so that what would be waited for has failed."""
    monkeypatch.setattr(plan_move, "REPORT_TIME", -1.0)
    monkeypatch.setattr(plan_move, "TASK_TIME", -1.0)


@pytest.mark.parametrize(
    ("kind", "places", "is_busy", "is_there"),
    [
        (LIVE, {"old": "active"}, False, False),
        (LIVE, {"old": "active/migrating"}, True, False),
        (LIVE, {"old": "active", "new": "paused"}, True, False),
        (LIVE, {"new": "active/migrating"}, True, True),
        (LIVE, {"new": "active"}, False, True),
        (LIVE, {}, False, False),
        (COLD, {"new": "resized"}, False, False),
        (COLD, {"new": "stopped"}, False, True),
        # The host that is down reports neither what leaves it nor the end of a task.
        (EVACUATION, {"old": "active"}, False, False),
        (EVACUATION, {"old": "active/image_snapshot"}, False, False),
        (EVACUATION, {"old": "active/rebuilding"}, True, False),
        (EVACUATION, {"old": "active", "new": "active"}, False, True),
        (EVACUATION, {"old": "error", "new": "active/rebuild_spawning"}, True, True),
        (EVACUATION, {"new": "stopped"}, False, True),
    ],
)
def test_what_is_seen_of_an_instance(database, report, kind, places, is_busy, is_there):
    report(**places)
    watch = a_watch(database, kind)
    assert (watch.is_busy, watch.is_there) == (is_busy, is_there)


@pytest.mark.parametrize("kind", [LIVE, COLD, EVACUATION])
@pytest.mark.usefixtures("no_time")
def test_a_move_that_was_rolled_back_has_failed(database, report, kind):
    report(old="active")
    watch = a_watch(database, kind, waits_for_task=True)
    report(old="active/rebuilding")
    watch.look()
    watch.check()
    report(old="active")
    watch.look()
    with pytest.raises(MoveFailed, match=r"^the instance is on old \(active\), and is not moving$"):
        watch.check()


def test_what_a_program_has_done_is_reported_later(database, report):
    """Not even one that is on neither host has failed at once."""
    report(old="active")
    watch = a_watch(database)
    for places in ({"old": "active"}, {}):
        report(**places)
        watch.look()
        watch.check()
    assert watch.text == "on no host"


@pytest.mark.usefixtures("no_time")
def test_an_evacuation_whose_task_was_not_seen_yet_is_waited_for(database, report):
    report(old="active")
    a_watch(database, EVACUATION, waits_for_task=True).check()
    with pytest.raises(MoveFailed, match="is not moving"):
        a_watch(database, EVACUATION).check()


@pytest.mark.usefixtures("no_time")
def test_a_resize_that_is_not_confirmed_yet_is_waited_for(database, report):
    """Nova may confirm it after a time."""
    report(new="resized")
    a_watch(database, COLD).check()


@pytest.mark.parametrize("kind", [LIVE, EVACUATION])
@pytest.mark.parametrize("places", [{"old": "error"}, {"new": "error"}])
def test_an_instance_that_has_come_to_error_has_failed_at_once(database, report, kind, places):
    report(old="active")
    watch = a_watch(database, kind)
    report(**places)
    watch.look()
    with pytest.raises(MoveFailed, match=r"^the instance is in state error$"):
        watch.check()


def test_one_that_was_in_error_has_failed_once_its_task_is_over(database, report):
    report(old="error")
    watch = a_watch(database, EVACUATION, waits_for_task=True)
    watch.check()
    report(old="error/rebuilding")
    watch.look()
    watch.check()
    report(old="error")
    watch.look()
    with pytest.raises(MoveFailed, match=r"^the instance is in state error$"):
        watch.check()


@pytest.mark.usefixtures("no_time")
def test_one_that_stays_in_error_without_a_task_has_failed_in_the_end(database, report):
    report(old="error")
    with pytest.raises(MoveFailed, match=r"^the instance is in state error still, without a task$"):
        a_watch(database, EVACUATION, waits_for_task=True).check()


def test_the_error_on_a_host_that_is_down_does_not_count_elsewhere(database, report):
    report(old="error")
    watch = a_watch(database, EVACUATION)
    report(old="error", new="active")
    watch.look()
    watch.check()
    assert watch.is_there


@pytest.mark.usefixtures("no_time")
def test_a_database_that_is_away_makes_no_move_fail(database, report, monkeypatch):
    def is_away(work):
        raise DatabaseUnavailable("it is away")

    report(old="active")
    watch = a_watch(database)
    with monkeypatch.context() as patch:
        patch.setattr(database, "read", is_away)
        patch.setattr(plan_move, "REPORT_TIME", 60.0)
        watch.look()
        watch.check()
    report(new="active")
    watch.look()
    watch.check()
    assert watch.is_there
