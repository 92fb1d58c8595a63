# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.claims.claim_reconciler: claims of lost instances are given back."""

import logging
from threading import Event

import pytest

from scheduler.claims import claim_reconciler
from scheduler.claims.claim_reconciler import ClaimReconciler, Pace, is_over
from scheduler.client.nova_conductor import DELETED, InstanceState, NoConductor
from tests.fixtures.daemons.process import wait_until
from tests.unit.scheduler.select_destinations.test_loop_requests import (
    U,
    a_scheduler,
    ask,
    claimed,
    cloud,
    used,
)

__all__ = ["cloud"]
QUICK = Pace(0.01, 0.01, 0.01, 600.0, 0.01)
FAILED = InstanceState(True, None, "error", None)
BUILDING = InstanceState(True, "h2", "building", None)
THERE = InstanceState(True, "h1", "active", None)
NOBODY = NoConductor("timed out")


class Nova:
    """A conductor that gives these answers, the last one for ever."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = 0
        self.before = lambda: None

    def ask(self, uuid):
        self.before()
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


class Watch:
    """A scheduler on a cloud, whose claims are compared with what a conductor says."""

    def __init__(self, cloud, nova, pace=QUICK, enabled=True, **terms):
        self.nova = nova
        self.scheduler = a_scheduler(cloud, **terms)
        self.reconciler = ClaimReconciler(
            lambda: self.scheduler.claimer, nova.ask, lambda: enabled, pace
        )
        self.cloud = cloud

    def place(self, *uuids, **options):
        """Place instances, and have them watched."""
        hosts = ask(self.scheduler, *uuids, **options)
        self.reconciler.watch(uuids)
        return hosts

    def is_empty(self):
        """Wait until nothing is claimed any more."""
        return wait_until(lambda: not claimed(self.cloud))

    def has_asked(self, times):
        return wait_until(lambda: self.nova.asked >= times)


@pytest.fixture
def watching(cloud):
    """What makes watches, which end with the test."""
    made = []

    def watch(*answers, **options):
        made.append(Watch(cloud, Nova(*answers), **options))
        return made[-1]

    yield watch
    for each in made:
        each.reconciler.stop()


@pytest.mark.parametrize("state", [FAILED, DELETED, InstanceState(True, "h3", "active", None)])
def test_the_claims_of_an_instance_that_does_not_come_are_given_back(watching, caplog, state):
    watch = watching(state)
    with caplog.at_level(logging.INFO, logger=claim_reconciler.__name__):
        watch.place(U[0])
        assert watch.is_empty()
        assert used(watch.cloud) == [0, 2048, 4096]
        said = f"Released claims of instance {U[0]} on h1: it "
        assert wait_until(lambda: any(each.startswith(said) for each in caplog.messages))


@pytest.mark.parametrize("state", [None, BUILDING, THERE, InstanceState(True, None, "active", "x")])
def test_the_claim_of_an_instance_that_may_come_stays(watching, state):
    watch = watching(state)
    watch.place(U[0])
    assert watch.has_asked(4)
    assert claimed(watch.cloud) == {U[0]: "h1"}


def test_a_state_that_only_passes_ends_no_claim(watching):
    watch = watching(FAILED, BUILDING, FAILED, THERE)
    watch.place(U[0])
    assert watch.has_asked(6)
    assert claimed(watch.cloud) == {U[0]: "h1"}


def test_what_is_claimed_after_the_question_stays(watching):
    watch = watching(FAILED)
    again = Event()

    def claim_anew():
        if watch.nova.asked == 1 and not again.is_set():
            again.set()
            ask(watch.scheduler, U[0], request_id="req-2")
            watch.nova.answers[:] = [THERE]

    watch.nova.before = claim_anew
    watch.place(U[0])
    assert watch.has_asked(5)
    assert U[0] in claimed(watch.cloud)


def test_one_is_given_back_and_another_stays(watching):
    watch = watching(FAILED, FAILED, THERE)
    watch.place(U[0])
    assert watch.is_empty()
    watch.place(U[1], request_id="req-2")
    asked = watch.nova.asked
    assert watch.has_asked(asked + 3)
    assert claimed(watch.cloud) == {U[1]: "h1"}


def test_nobody_is_asked_again_for_long_where_nobody_ever_answers(watching, caplog):
    watch = watching(NOBODY)
    with caplog.at_level(logging.INFO, logger=claim_reconciler.__name__):
        watch.place(U[0], U[1])
        assert wait_until(lambda: caplog.messages)
        watch.place(U[2], request_id="req-2")
    assert watch.nova.asked == 1
    (message,) = caplog.messages
    assert message.startswith("No Nova conductor answers: ")
    assert len(claimed(watch.cloud)) == 3


def test_a_conductor_that_is_restarted_is_asked_soon_again(watching):
    watch = watching(THERE, NOBODY, NOBODY, FAILED)
    watch.place(U[0])
    assert watch.is_empty()


def test_an_odd_error_ends_nothing(watching):
    watch = watching(LookupError("odd"), FAILED)
    watch.place(U[0])
    assert watch.is_empty()


def test_nobody_is_asked_about_what_has_no_claim(watching):
    watch = watching(FAILED)
    ask(watch.scheduler, U[0])
    watch.scheduler.claimer.release([U[0]])
    watch.reconciler.watch([U[0]])
    watch.place(U[1], request_id="req-2")
    assert watch.is_empty()
    assert watch.nova.asked == 2


def test_nobody_is_asked_after_the_lease(watching):
    watch = watching(FAILED, lease=1e-6)
    watch.place(U[0])
    assert wait_until(lambda: not watch.reconciler.is_watching)
    assert watch.nova.asked == 0


def test_a_stop_ends_the_questions(watching):
    watch = watching(THERE, pace=Pace(600.0))
    watch.place(U[0])
    watch.reconciler.stop()
    assert watch.nova.asked == 0
    assert not watch.reconciler.is_watching


@pytest.mark.parametrize(
    ("vm_state", "host", "is_there"),
    [
        ("resized", "h1", True),
        ("resized", "h2", False),
        ("error", "h1", True),
        ("error", None, False),
        ("shelved_offloaded", None, False),
        ("stopped", None, True),
        (None, None, True),
    ],
)
def test_an_instance_without_a_task_is_where_it_stays(vm_state, host, is_there):
    assert is_over(InstanceState(True, host, vm_state, None), "h1") is not is_there
    assert not is_over(InstanceState(True, host, vm_state, "resize_prep"), "h1")
