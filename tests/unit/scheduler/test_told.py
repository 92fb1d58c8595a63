# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.told: what a host has lost is taken from the view and from its claim."""

from scheduler.told import Told
from tests.unit.scheduler.test_claimed_destinations import U, a_scheduler, ask, cloud

__all__ = ["cloud"]


def test_the_end_of_an_instance_is_told_to_whoever_releases(cloud):
    scheduler, released = a_scheduler(cloud), []
    ask(scheduler, U[0])
    Told(scheduler.view, lambda *told: released.append(told)).delete_instance("h1", U[0])
    assert released == [("h1", U[0])]
