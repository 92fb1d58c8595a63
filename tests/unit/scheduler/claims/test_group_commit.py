# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.claims.group_commit, and of Claimer where it claims for many together."""

import math
from concurrent.futures import CancelledError
from itertools import count
from threading import Event, Semaphore

import pytest
import sqlalchemy as sa

from inventory.claims.types import Claim, ClaimLost, ClaimRequest
from inventory.database_errors import DatabaseUnavailable
from inventory.tables import allocations
from scheduler.cached_thread_pool import CachedThreadPool
from scheduler.claims import group_commit
from scheduler.claims.claim_request import ClaimSettings
from scheduler.claims.claimer import Claimer
from scheduler.claims.group_commit import GroupCommit, TooLate
from scheduler.fibers import Fibers
from tests.databases import a_node, a_uuid, save

LONG = 30.0
_numbers = count()


@pytest.fixture
def cloud(database):
    """Return a database with a host for four instances, and one for a hundred."""
    save(database, a_node("h1", memory_mb_used=0), a_node("h2", memory_mb_used=0, id=2))
    return database


class Beginning:
    """A begin that waits until it is told to; it notes the number of requests in each batch."""

    def __init__(self, database):
        self.works, self.published = [], []
        self.commit = GroupCommit(database, self.works.append, self.published.append)

    def submit(self, *requests, left=lambda: math.inf):
        return [self.commit.submit(each, left) for each in requests]

    def begin(self):
        works, self.works[:] = [*self.works], []
        for work in works:
            work()


@pytest.fixture
def together(cloud):
    return Beginning(cloud)


def a_request(name=None, node=2, uuid=None, **changes):
    """Return a request for one instance that takes a quarter of the first host."""
    name = f"req-{next(_numbers)}" if name is None else name
    terms = {
        "vcpus": 4,
        "memory_mb": 512,
        "disk_mb": 0,
        "limits": {"vcpu": [16.0, 400.0][node - 1]},
    }
    claim = Claim(a_uuid(uuid or name), node, f"h{node}", f"h{node}", answer=name, **terms)
    return ClaimRequest(name, "d", [claim], 900, **changes)


def claimed(database):
    query = sa.select(allocations.c.request_id).order_by(allocations.c.id)
    return {*database.read(lambda c: c.scalars(query).all())}


def test_what_has_come_is_claimed_for_in_one_transaction(cloud, together, monkeypatch):
    written = []
    monkeypatch.setattr(
        cloud, "write", lambda work: written.append(1) or type(cloud).write(cloud, work)
    )
    requests = [a_request() for _ in range(16)]
    futures = together.submit(*requests)
    assert len(together.works) == 1
    together.begin()
    assert [each.result(0).answers for each in futures] == [[each.request_id] for each in requests]
    assert (len(written), len(claimed(cloud))) == (1, 16)


def test_first_come_first_served(cloud, together):
    """There is room for four; who has lost costs nobody else anything."""
    requests = [a_request(node=1) for _ in range(7)]
    futures = together.submit(*requests)
    together.begin()
    assert [type(each.exception(0)) for each in futures] == [type(None)] * 4 + [ClaimLost] * 3
    assert futures[-1].exception(0).nodes == {1}
    assert claimed(cloud) == {each.request_id for each in requests[:4]}


def test_what_has_claims_already_is_left_to_be_claimed_for_by_itself(cloud, together):
    futures = together.submit(a_request("req-1"), a_request("again", uuid="req-1"))
    together.begin()
    assert [each.result(0) is None for each in futures] == [False, True]
    futures = together.submit(a_request("req-1"), a_request("req-2"))
    together.begin()
    assert [each.result(0) is None for each in futures] == [True, False]
    assert claimed(cloud) == {"req-1", "req-2"}


def test_a_batch_is_bounded(cloud, together, monkeypatch):
    monkeypatch.setattr(group_commit, "MAX_BATCH", 3)
    sizes, claim_each = [], group_commit.claims.claim_each

    def counting(connection, requests):
        sizes.append(len(requests))
        return claim_each(connection, requests)

    monkeypatch.setattr(group_commit.claims, "claim_each", counting)
    together.submit(*(a_request() for _ in range(8)))
    together.begin()
    assert (sizes, len(claimed(cloud))) == ([3, 3, 2], 8)


def test_what_a_transaction_has_changed_is_published_once(together):
    together.submit(a_request("req-1"), a_request("req-2", node=1), a_request("req-3"))
    together.begin()
    (changes,) = together.published
    added = {each: [claim.instance_uuid for claim in changes[each].added] for each in changes}
    assert added == {1: [a_uuid("req-2")], 2: [a_uuid("req-1"), a_uuid("req-3")]}
    assert (changes[2].before, changes[2].after, changes[2].claims) == (1, 3, 2)


def test_who_waits_no_longer_is_not_claimed_for(cloud, together):
    first, second = together.submit(a_request("req-1"), a_request("req-2"))
    assert first.cancel()
    together.begin()
    with pytest.raises(CancelledError):
        first.result(0)
    assert second.result(0).answers == ["req-2"]
    assert claimed(cloud) == {"req-2"}


def test_one_whose_caller_has_given_up_does_not_cost_the_others_their_claims(cloud, together):
    late = together.submit(a_request("req-1"), left=lambda: -1.0)
    others = together.submit(a_request("req-2"), a_request("req-3"))
    together.begin()
    # Each is claimed for by itself now.
    assert [each.result(0) for each in (*late, *others)] == [None] * 3
    assert claimed(cloud) == set()
    late = together.submit(a_request("req-1"), left=lambda: -1.0)
    together.begin()
    assert isinstance(late[0].exception(0), TooLate)
    assert claimed(cloud) == set()


def test_all_hear_of_it_when_the_database_is_gone(cloud, together, monkeypatch):
    gone = DatabaseUnavailable("gone")

    def fail(_work):
        raise gone

    monkeypatch.setattr(cloud, "write", fail)
    futures = together.submit(a_request(), a_request())
    together.begin()
    assert [each.exception(0) for each in futures] == [gone, gone]
    monkeypatch.undo()
    (after,) = together.submit(a_request())
    together.begin()
    assert after.result(0) is not None


def test_no_more_than_two_transactions_are_under_way(cloud, together, monkeypatch):
    """What has come meanwhile is claimed for by those that end."""
    pool, may_write, write = CachedThreadPool(), Event(), cloud.write
    under_way = Semaphore(0)

    def slow(work):
        under_way.release()
        assert may_write.wait(LONG)
        return write(work)

    monkeypatch.setattr(cloud, "write", slow)
    ends = []
    for _ in range(2):
        together.submit(a_request())
        (work,) = together.works
        together.works.clear()
        ends.append(pool.run(work))
        assert under_way.acquire(timeout=LONG)
    waiting = together.submit(a_request(), a_request())
    assert together.works == []
    may_write.set()
    assert [each.result(LONG) for each in ends] == [None, None]
    assert [each.exception(0) for each in waiting] == [None, None]
    assert len(claimed(cloud)) == 4


@pytest.mark.parametrize("in_fibers", [True, False])
def test_everybody_is_answered_once_whoever_comes_when(cloud, in_fibers):
    """As many as there may be in flight, in fibers or in threads; some come twice."""
    pool, fibers = CachedThreadPool(), Fibers()
    begin = fibers.run_when_idle if in_fibers else None
    claimer = Claimer(cloud, ClaimSettings(), begin_commit=begin)
    run = fibers.run if in_fibers else pool.run
    requests = [a_request(node=1 + number % 2) for number in range(30)]
    requests += requests[:4]
    go = Event()
    futures = [run(lambda: go.wait(LONG))] if in_fibers else []
    futures += [run(lambda each=each: claimer.claim(each)) for each in requests]
    go.set()
    found = [each.exception(LONG) or each.result(0) for each in futures[-len(requests) :]]
    lost = [each for each in found if isinstance(each, ClaimLost)]
    made = [each for each in found if not isinstance(each, ClaimLost) and not each.repeated]
    assert len(made) == 4 + 15
    assert all(each.nodes == {1} for each in lost)
    assert len(claimed(cloud)) == 19
