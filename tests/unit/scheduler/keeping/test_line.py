# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.keeping.line."""

from threading import Thread

import pytest

from scheduler.decision.film import Film
from scheduler.keeping.line import MANY, MOST_WAITING, Line
from tests.unit.scheduler.keeping.courses import Scheduler

NO_TIME = 0.0


@pytest.fixture
def film():
    return Film()


@pytest.fixture
def scheduler(film):
    return Scheduler(film)


@pytest.fixture
def line(film):
    """Return a line that nobody waits in for company."""
    line = Line(film)
    line.close()
    return line


def fill(line, scheduler):
    """Let wait what there is room for."""
    line.add(scheduler.decide("large", instances=1))
    large = scheduler.decide("larger", instances=2)
    large.instance_uuids = ["u"] * MOST_WAITING
    line.add(large)


def test_what_is_over_waits_in_its_order(line, scheduler):
    courses = [scheduler.decide(f"u{each}") for each in range(3)]
    for each in courses:
        line.add(each)
    assert line.take(NO_TIME) == courses
    assert line.take(NO_TIME) == []
    assert line.losses() == 0


def test_beyond_what_there_is_room_for_it_is_lost_and_counted_once(line, scheduler):
    fill(line, scheduler)
    for each in range(3):
        line.add(scheduler.decide(f"u{each}"))
    assert len(line.take(NO_TIME)) == 2
    assert line.losses() == 3
    assert line.losses() == 0


def test_nothing_is_kept_of_a_film_with_a_hole_and_another_begins_when_there_is_room(
    line, scheduler
):
    fill(line, scheduler)
    late = scheduler.decide("late")
    line.add(scheduler.decide("lost"))
    # A whole picture for each that is lost would cost more than it is worth.
    assert scheduler.decide("not even told").frames[0].number == 4
    line.take(NO_TIME)
    line.add(late)
    first = scheduler.decide("first")
    assert (first.frames[0].reel, first.frames[0].number) == (late.frames[0].reel + 1, 0)
    line.add(first)
    # Its film has the same hole, and is no reason to begin another one.
    line.add(late)
    second = scheduler.decide("second")
    assert second.frames[0].number == 1
    line.add(second)
    assert line.take(NO_TIME) == [first, second]
    assert line.losses() == 3


def test_what_could_not_be_kept_makes_holes_as_well(line, scheduler):
    line.add(scheduler.decide("u1"))
    line.lose(line.take(NO_TIME))
    line.add(scheduler.decide("u2"))
    line.add(scheduler.decide("u3"))
    assert [each.frames[0].number for each in line.take(NO_TIME)] == [0]
    assert line.losses() == 2


def test_who_takes_is_told_when_there_are_many(film):
    line, scheduler, taken = Line(film), Scheduler(film), []
    thread = Thread(target=lambda: taken.append(line.take(60.0)))
    thread.start()
    for each in range(MANY):
        line.add(scheduler.decide(f"u{each}"))
    thread.join()
    assert 1 <= len(taken[0]) <= MANY


def test_a_course_alone_is_taken_soon(film):
    line = Line(film)
    line.add(Scheduler(film).decide("u1"))
    assert len(line.take(60.0)) == 1


def test_nobody_waits_once_it_is_closed(film):
    line = Line(film)
    threads = [Thread(target=line.take, args=(60.0,)), Thread(target=line.rest, args=(60.0,))]
    for each in threads:
        each.start()
    line.close()
    for each in threads:
        each.join(30.0)
        assert not each.is_alive()
