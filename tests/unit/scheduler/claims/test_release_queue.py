# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.claims.release_queue: the claims of instances that their hosts have lost."""

import logging
from threading import Event

import pytest

from inventory.claims.types import INSTANCE, ClaimLost
from inventory.database_errors import DatabaseUnavailable, StatementRefused
from scheduler.claims import release_queue
from scheduler.claims.claim_request import ClaimSettings
from scheduler.claims.claimer import Claimer
from scheduler.claims.release_queue import ReleaseLease, ReleaseQueue
from tests.fixtures.daemons.process import PATIENCE, wait_until
from tests.unit.scheduler.select_destinations.test_loop_requests import (
    U,
    a_scheduler,
    ask,
    claimed,
    cloud,
)

__all__ = ["cloud"]


class Refusing(Claimer):
    """A claimer that cannot release anything, unless others were faster."""

    def __init__(self, database, error, others_are_faster=False, lease=900):
        super().__init__(database, ClaimSettings(lease=lease))
        self.error = error
        self.refused = 0
        self.others_are_faster = others_are_faster

    def release_lost(self, lost):
        # A test may take it away at any time.
        error = self.error
        if self.others_are_faster:
            super().release_lost(lost)
            self.others_are_faster = False
            raise error
        if error is None:
            return super().release_lost(lost)
        if not self.pending([uuid for _, uuid in lost]):
            return []
        self.refused += 1
        raise error


class Hanging:
    """A claimer whose database does not answer until it may."""

    settings = ClaimSettings()

    def __init__(self):
        self.is_asked, self.may_answer = Event(), Event()

    def release_lost(self, lost):
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
    assert message == f"Claims of instances {U[0]} stay until their leases end: {said}"
    assert claimed(cloud) == {U[0]: "h1"}


@pytest.mark.parametrize("error", [LOST, DatabaseUnavailable("gone")])
def test_a_release_is_tried_again_while_the_lease_lasts(cloud, caplog, monkeypatch, error):
    monkeypatch.setattr(release_queue, "RETRY", 0.01)
    ask(a_scheduler(cloud), U[0])
    claimer = Refusing(cloud, error)
    queue = a_queue(claimer)
    with caplog.at_level(logging.WARNING, logger=release_queue.__name__):
        queue.add("h1", U[0])
        assert wait_until(lambda: claimer.refused > 2)
        claimer.error = None
        assert wait_until(lambda: claimed(cloud) == {})
    # As often as it failed, it is said once.
    assert caplog.messages == [
        f"Claims of deleted instances, such as {U[0]}, stay for now; the release is tried again"
        f" until the leases end: {error}"
    ]
    queue.stop(PATIENCE)


def test_a_release_is_given_up_when_the_lease_has_ended(cloud, caplog, monkeypatch):
    monkeypatch.setattr(release_queue, "RETRY", 0.01)
    claimer = Refusing(cloud, DatabaseUnavailable("gone"), lease=0.1)
    ask(a_scheduler(cloud), U[0])
    with caplog.at_level(logging.WARNING, logger=release_queue.__name__):
        a_queue(claimer).add("h1", U[0])
        said = f"Claims of instances {U[0]} stay until their leases end: {claimer.error}"
        assert wait_until(lambda: said in caplog.messages)


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
    with caplog.at_level(logging.WARNING, logger=release_queue.__name__):
        queue.stop(0)
    claimer.may_answer.set()
    queue.stop(PATIENCE)
    assert caplog.messages == [
        "Claims of deleted instances stay until their leases end: too many releases are waiting",
        "Claims of 5 deleted instances were not released before shutdown; they stay until their"
        " leases end",
    ]


class Counting(Claimer):
    """A claimer that notes how many instances each transaction is about."""

    def __init__(self, database):
        super().__init__(database, ClaimSettings())
        self.batches = []

    def release_lost(self, lost):
        self.batches.append(len(lost))
        return super().release_lost(lost)


def test_many_are_released_together(cloud):
    scheduler, claimer = a_scheduler(cloud), Counting(cloud)
    for number in range(6):
        ask(scheduler, U[number], request_id=f"req-{number}")
    hosts = claimed(cloud)
    released(a_queue(claimer), *((host, uuid) for uuid, host in hosts.items()))
    assert (claimer.batches, claimed(cloud)) == ([6], {})


def test_one_that_cannot_be_released_costs_the_others_nothing(cloud, caplog):
    scheduler = a_scheduler(cloud)
    for number in range(3):
        ask(scheduler, U[number], request_id=f"req-{number}")
    hosts = claimed(cloud)

    class Picky(Claimer):
        def release_lost(self, lost):
            if any(uuid == U[1] for _, uuid in lost):
                raise StatementRefused("odd")
            return super().release_lost(lost)

    queue = a_queue(Picky(cloud, ClaimSettings()))
    with caplog.at_level(logging.WARNING, logger=release_queue.__name__):
        released(queue, *((host, uuid) for uuid, host in hosts.items()))
    assert claimed(cloud).keys() == {U[1]}
    assert [each.count(U[1]) for each in caplog.messages] == [1]


def test_one_scheduler_releases_and_another_what_it_leaves(cloud, monkeypatch):
    monkeypatch.setattr(release_queue, "COLLECTING", 0.0)
    monkeypatch.setattr(release_queue, "GRACE", 0.2)
    leases = [ReleaseLease(cloud, host) for host in ("one", "two")]
    claimers = [Counting(cloud), Counting(cloud)]
    one, two = (
        ReleaseQueue(lambda it=claimer: it, lease.hold)
        for claimer, lease in zip(claimers, leases, strict=True)
    )
    scheduler = a_scheduler(cloud)
    assert [each.hold() for each in (*leases, *leases)] == [True, False, True, False]
    ask(scheduler, U[0])
    one.add("h1", U[0])
    two.add("h1", U[0])
    assert wait_until(lambda: claimed(cloud) == {})
    # The first one has missed this cast.
    ask(scheduler, U[1], request_id="req-2")
    (host,) = claimed(cloud).values()
    two.add(host, U[1])
    assert wait_until(lambda: claimed(cloud) == {})
    one.stop(PATIENCE)
    two.stop(PATIENCE)
    assert claimers[0].batches == [1]
