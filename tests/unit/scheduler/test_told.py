# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.told: the claim of an instance that its host has lost."""

import logging

import pytest

from inventory.claims import ClaimLost
from inventory.engine import DatabaseUnavailable
from scheduler.claiming import Claimer, Terms
from scheduler.told import Told
from tests.unit.scheduler.test_claimed_destinations import U, a_scheduler, ask, claimed, cloud

__all__ = ["cloud"]


class Refusing(Claimer):
    """A claimer that cannot release anything."""

    def __init__(self, database, error):
        super().__init__(database, Terms())
        self.error = error

    def release(self, uuids, host=None):
        raise self.error


def test_the_claim_of_an_instance_ends_with_it_on_its_host_only(cloud):
    scheduler = a_scheduler(cloud)
    ask(scheduler, U[0])
    told = Told(scheduler.view, lambda: scheduler.claimer)
    told.delete_instance("h2", U[0])
    assert claimed(cloud) == {U[0]: "h1"}
    told.delete_instance("h1", U[0])
    told.delete_instance("h1", U[0])
    assert claimed(cloud) == {}


def test_without_a_claimer_only_the_view_is_told(cloud):
    scheduler = a_scheduler(cloud)
    ask(scheduler, U[0])
    Told(scheduler.view, lambda: None).delete_instance("h1", U[0])
    assert claimed(cloud) == {U[0]: "h1"}


@pytest.mark.parametrize("error", [ClaimLost((), "it has changed"), DatabaseUnavailable("gone")])
def test_a_claim_that_cannot_be_released_is_left_to_its_lease(cloud, caplog, error):
    scheduler = a_scheduler(cloud)
    ask(scheduler, U[0])
    with caplog.at_level(logging.WARNING, logger="scheduler.told"):
        Told(scheduler.view, lambda: Refusing(cloud, error)).delete_instance("h1", U[0])
    (message,) = caplog.messages
    assert message == f"The claim of instance {U[0]} stays until its lease ends: {error}"
    assert claimed(cloud) == {U[0]: "h1"}
