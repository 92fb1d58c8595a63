# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of rounds where the database refuses one of the claims."""

from dataclasses import replace
from functools import partial
from threading import Event

import pytest
import sqlalchemy as sa

from inventory.claims.types import Claim, ClaimRequest, ClaimResult
from inventory.database_errors import StatementRefused
from inventory.engine import Database
from inventory.tables import allocations
from scheduler.cached_thread_pool import CachedThreadPool
from tests.claiming_loop import ClaimingLoop
from tests.databases import a_uuid
from tests.fixtures.daemons.process import PATIENCE


def a_request(name: str) -> ClaimRequest:
    """Return a request for one instance on the first host."""
    claim = Claim(a_uuid(name), 1, "h1", "h1", 1, 512, 0, answer=name)
    return ClaimRequest(f"req-{name}", "d", [claim], 900)


def refused() -> ClaimRequest:
    """Return a request that no column takes."""
    found = a_request("refused")
    return replace(found, claims=[replace(each, host=None) for each in found.claims])


def claimed(database: Database) -> set[str]:
    query = sa.select(allocations.c.request_id)
    return {*database.read(lambda connection: connection.scalars(query).all())}


def test_a_claim_that_is_refused_is_tried_by_itself_as_are_the_others(cloud: Database) -> None:
    works = []
    rounds = ClaimingLoop(cloud, works.append)
    requests = [a_request("one"), refused(), a_request("two")]
    futures = [rounds.submit(lambda _, each=each: each) for each in requests]
    works.pop()()
    one, refusal, two = futures
    assert (one.result(0).answers, two.result(0).answers) == (["one"], ["two"])
    assert isinstance(refusal.exception(0), StatementRefused)
    assert claimed(cloud) == {"req-one", "req-two"}


def test_one_claim_that_is_refused_costs_the_others_nothing(cloud: Database) -> None:
    threads, go, claimer = CachedThreadPool(), Event(), ClaimingLoop(cloud)
    requests = [a_request(f"i{number}") for number in range(5)]

    def claim(request: ClaimRequest) -> ClaimResult:
        go.wait(PATIENCE)
        return claimer.claim(request)

    futures = [threads.run(partial(claim, each)) for each in [*requests, refused()]]
    go.set()
    *others, alone = futures
    assert [each.result(PATIENCE).answers for each in others] == [[f"i{n}"] for n in range(5)]
    assert claimed(cloud) == {each.request_id for each in requests}
    error = alone.exception(PATIENCE)
    assert isinstance(error, StatementRefused)
    # Neither the statement nor what others have in it.
    assert not any(each in str(error) for each in ("INSERT", "sqlalche", a_uuid("i1")))


def test_what_a_database_refuses_is_reported_without_the_statement(cloud: Database) -> None:
    with pytest.raises(StatementRefused) as raised:
        cloud.read(lambda connection: connection.execute(sa.text("SELECT secret FROM nowhere")))
    assert "nowhere" in str(raised.value)
    assert not any(each in str(raised.value) for each in ("secret", "sqlalche"))
