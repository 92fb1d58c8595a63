# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Of several agents with the same work, one does it."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

import pytest

from compute_agent import lease
from compute_agent.lease import Lease
from inventory import leases
from inventory.database_errors import DatabaseUnavailable
from inventory.engine import Database
from tests.fixtures.daemons.process import PATIENCE, wait_until

NAME = "nova mirror"


def test_one_has_it_and_the_other_takes_over(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    one, two = (Lease(database, NAME, host, 60) for host in ("c1", "c2"))
    assert not one.held
    assert not one.is_anothers
    assert one.renew()
    assert one.held
    assert not two.renew()
    assert not two.held
    assert two.is_anothers
    assert one.renew()
    two.stop()
    assert not two.renew()
    one.stop()
    assert not one.held
    assert two.renew()
    assert not one.renew()
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [
        "Taking over lease nova mirror for 60 s at a time",
        "Standing by: the agent of c1 holds lease nova mirror",
        "Taking over lease nova mirror for 60 s at a time",
        "Standing by: the agent of c2 holds lease nova mirror",
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


def test_a_term_is_another_one_after_it_was_lost(database: Database) -> None:
    one = Lease(database, NAME, "c1", 60)
    assert (one.renew(), one.renew(), one.term) == (True, True, 1)
    lapsing = Lease(database, "other", "c1", 0)
    assert (lapsing.renew(), lapsing.renew(), lapsing.term) == (True, True, 2)


@contextmanager
def running(found: Lease) -> Iterator[Event]:
    """Whether the lease has said that it changed, inside the block."""
    said = Event()
    found.changed = said.set
    found.start()
    try:
        yield said
    finally:
        found.stop()


def test_who_stands_by_hears_at_once_that_it_is_free(database: Database) -> None:
    one, two = Lease(database, NAME, "c1", 60), Lease(database, NAME, "c2", 60)
    one.renew()
    with running(two) as said:
        assert said.wait(PATIENCE)
        assert two.is_anothers
        said.clear()
        one.stop()
        assert said.wait(PATIENCE)
        assert two.held
    assert leases.hold(database, NAME, "another", 60) == "another"


def test_it_is_asked_for_again_after_an_outage(
    database: Database, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    gone, hold = Event(), leases.hold
    gone.set()

    def ask(*arguments: object) -> str:
        if gone.is_set():
            raise DatabaseUnavailable("gone")
        return hold(*arguments)  # type: ignore[arg-type]  # as they came

    monkeypatch.setattr(leases, "hold", ask)
    monkeypatch.setattr(lease, "INTERVAL", 0.01)
    one = Lease(database, NAME, "c1", 60)
    with running(one):
        assert wait_until(lambda: "Cannot ask for lease nova mirror: " in caplog.text)
        # Nobody knows whose it is.
        assert not one.held
        assert not one.is_anothers
        gone.clear()
        assert wait_until(lambda: one.held)
    assert caplog.text.count("Cannot ask") == 1
