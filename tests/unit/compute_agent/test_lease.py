# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Of several agents with the same work, one does it."""

import logging

import pytest

from compute_agent.lease import Lease
from inventory.engine import Database

NAME = "nova mirror"


def test_one_has_it_and_the_other_takes_over(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    one, two = (Lease(database, NAME, host, 60) for host in ("c1", "c2"))
    assert not one.held
    assert one.renew()
    assert one.held
    assert not two.renew()
    assert not two.held
    assert one.renew()
    two.release()
    assert not two.renew()
    one.release()
    assert not one.held
    assert two.renew()
    assert not one.renew()
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [
        "Taking over lease nova mirror for 60 s at a time",
        "Standing by: the agent of c1 has lease nova mirror",
        "Taking over lease nova mirror for 60 s at a time",
        "Standing by: the agent of c2 has lease nova mirror",
    ]


def test_two_agents_of_the_same_host_are_two(database: Database) -> None:
    one, two = (Lease(database, NAME, "c1", 60) for _ in range(2))
    assert one.renew()
    assert not two.renew()


def test_it_is_lost_here_no_later_than_for_others(database: Database) -> None:
    one, two = Lease(database, NAME, "c1", 0), Lease(database, NAME, "c2", 60)
    one.renew()
    assert not one.held
    assert two.renew()
