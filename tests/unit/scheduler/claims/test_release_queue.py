# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.claims.release_queue: the claims of instances that their hosts have lost."""

import logging
from threading import Event

import pytest

from inventory.claims.types import INSTANCE, ClaimLost
from inventory.engine import DatabaseUnavailable
from scheduler.claims import release_queue
from scheduler.claims.claim_request import ClaimSettings
from scheduler.claims.claimer import Claimer
from scheduler.claims.release_queue import ReleaseQueue
from tests.unit.scheduler.test_select_destinations_claimed import (
    U,
    a_scheduler,
    ask,
    claimed,
    cloud,
)

__all__ = ["cloud"]
PATIENCE = 30.0


class Refusing(Claimer):
    """A claimer that cannot release anything, unless others were faster."""

    def __init__(self, database, error, others_are_faster=False):
        super().__init__(database, ClaimSettings())
        self.error = error
        self.others_are_faster = others_are_faster

    def release(self, uuids, host=None):
        if self.others_are_faster:
            super().release(uuids, host)
        raise self.error


class Hanging:
    """A claimer whose database does not answer until it may."""

    def __init__(self):
        self.is_asked, self.may_answer = Event(), Event()

    def pending(self, uuids):
        self.is_asked.set()
        assert self.may_answer.wait(PATIENCE)
        return []


def a_queue(claimer):
    return ReleaseQueue(lambda: claimer)


def released(queue, *deleted):
    for host, uuid in deleted:
        queue.add(host, uuid)
    queue.stop(PATIENCE)


def test_the_claim_of_an_instance_ends_on_its_host_only(cloud):
    scheduler = a_scheduler(cloud)
    ask(scheduler, U[0])
    queue = a_queue(scheduler.claimer)
    released(queue, ("h2", U[0]))
    assert claimed(cloud) == {U[0]: "h1"}
    released(queue, ("h1", U[0]), ("h1", U[0]))
    assert claimed(cloud) == {}


def test_without_a_claimer_nothing_is_released(cloud):
    ask(a_scheduler(cloud), U[0])
    released(a_queue(None), ("h1", U[0]))
    assert claimed(cloud) == {U[0]: "h1"}


LOST = ClaimLost((), "it has changed", INSTANCE)


@pytest.mark.parametrize("error", [LOST, DatabaseUnavailable("gone"), LookupError("odd")])
def test_a_claim_that_cannot_be_released_is_left_to_its_lease(cloud, caplog, error):
    ask(a_scheduler(cloud), U[0])
    queue = a_queue(Refusing(cloud, error))
    with caplog.at_level(logging.WARNING, logger=release_queue.__name__):
        released(queue, ("h1", U[0]))
    (message,) = caplog.messages
    said = repr(error) if isinstance(error, LookupError) else error
    assert message == f"The claim of instance {U[0]} stays until its lease ends: {said}"
    assert claimed(cloud) == {U[0]: "h1"}


def test_where_another_scheduler_was_faster_there_is_nothing_to_warn_of(cloud, caplog):
    ask(a_scheduler(cloud), U[0])
    queue = a_queue(Refusing(cloud, LOST, others_are_faster=True))
    with caplog.at_level(logging.WARNING, logger=release_queue.__name__):
        released(queue, ("h1", U[0]))
    assert caplog.messages == []
    assert claimed(cloud) == {}


def test_adding_does_not_wait_for_a_database_that_hangs(monkeypatch, caplog):
    monkeypatch.setattr(release_queue, "MAX_WAITING", 5)
    claimer = Hanging()
    queue = a_queue(claimer)
    queue.add("h1", "0")
    # From now on the thread takes no further ones.
    assert claimer.is_asked.wait(PATIENCE)
    for number in range(1, 10):
        queue.add("h1", str(number))
    queue.stop(0)
    claimer.may_answer.set()
    queue.stop(PATIENCE)
    assert caplog.messages == [
        "Claims of deleted instances stay until their leases end: too many wait",
        "Claims of 6 deleted instances were not released before shutdown; they stay until their"
        " leases end",
    ]
