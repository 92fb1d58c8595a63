# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the rounds of scheduler.select_destinations.loop, without decisions."""

from dataclasses import replace
from itertools import count
from threading import Event, Semaphore

import pytest
import sqlalchemy as sa

from inventory.claims.numa_pci_usage import NUMA
from inventory.claims.types import GROUP, Claim, ClaimLost, ClaimRequest, GroupRule, NodeDocuments
from inventory.database_errors import DatabaseUnavailable, StatementRefused
from inventory.tables import allocations, compute_nodes
from scheduler.cached_thread_pool import CachedThreadPool
from scheduler.claims.claimer import TooLate
from scheduler.select_destinations import loop
from scheduler.wire.context import Deadline
from tests.builders import a_group
from tests.claiming_loop import ClaimingLoop
from tests.databases import a_node, a_uuid, save
from tests.fixtures.daemons.process import PATIENCE

GROUP_UUID = a_uuid("group")
APART = GroupRule(GROUP_UUID, (), most=1)
_numbers = count()


@pytest.fixture
def cloud(database):
    """Return a database with a host for four instances, and one for a hundred."""
    save(database, a_node("h1", memory_mb_used=0), a_node("h2", memory_mb_used=0, id=2))
    return database


class Beginning:
    """A begin that waits until it is told to; decisions are noted, and what was published."""

    def __init__(self, database):
        self.works, self.published, self.decided, self.members = [], [], [], []
        self.loop = ClaimingLoop(database, self.works.append, self.published.append)

    def submit(self, *requests, deadline=None, group=None):
        return [
            self.loop.submit(lambda newest, each=each: self.decide(each, newest), group, deadline)
            for each in requests
        ]

    def decide(self, request, newest):
        self.decided.append(request)
        self.members.append(newest.members.of(GROUP_UUID))
        if isinstance(request, Exception):
            raise request
        return request

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
    """The host has room for four; requests that lose do not change the claims of the others."""
    requests = [a_request(node=1) for _ in range(7)]
    futures = together.submit(*requests)
    together.begin()
    assert [type(each.exception(0)) for each in futures] == [type(None)] * 4 + [ClaimLost] * 3
    assert futures[-1].exception(0).nodes == {1}
    assert claimed(cloud) == {each.request_id for each in requests[:4]}


def test_what_has_claims_already_is_claimed_for_by_itself(cloud, together):
    futures = together.submit(a_request("req-1"), a_request("again", uuid="req-1"))
    together.begin()
    assert [each.result(0).answers for each in futures] == [["req-1"], ["again"]]
    futures = together.submit(a_request("again", uuid="req-1"), a_request("req-2"))
    together.begin()
    assert [each.result(0).repeated for each in futures] == [True, False]
    assert claimed(cloud) == {"again", "req-2"}


def test_members_of_a_group_are_claimed_for_one_after_the_other(cloud, together):
    """In one transaction: what the first of them has claimed is not in its rows yet."""
    hosts = [2, 2, 1]
    futures = together.submit(
        *(a_request(f"req-{number}", node, group=APART) for number, node in enumerate(hosts))
    )
    together.begin()
    first, second, third = futures
    assert first.result(0).answers == ["req-0"]
    assert second.exception(0).cause == GROUP
    assert third.result(0).answers == ["req-2"]
    assert claimed(cloud) == {"req-0", "req-2"}
    assert len(together.published) == 1


def test_a_member_that_is_claimed_for_without_its_group_is_seen_by_the_group(cloud, together):
    """Its own request does not name the group, as one of an old caller may not."""
    alone, member = a_request("req-1"), replace(APART, members=[a_uuid("req-1")])
    futures = together.submit(alone, a_request("req-2", group=member))
    together.begin()
    assert [type(each.exception(0)) for each in futures] == [type(None), ClaimLost]


@pytest.mark.parametrize("is_forced_first", [True, False])
def test_alternates_of_a_group_count_beside_a_forced_member(cloud, together, is_forced_first):
    """A forced member has no limit, so that its own alternates would not matter."""
    held = a_request("req-0", group=APART)
    held = replace(held, claims=[*held.claims, alternate_of(held, node=1)])
    together.submit(held)
    together.begin()
    forced = a_request("req-1", group=replace(APART, most=None, enforced=False))
    requests = [forced, a_request("req-2", node=1, group=APART)]
    together.submit(*(requests if is_forced_first else requests[::-1]))
    together.begin()
    assert claimed(cloud) == {"req-0", "req-1"}


def alternate_of(request, node):
    (claim,) = request.claims
    return replace(claim, node_id=node, host=f"h{node}", node=f"h{node}", alternate=True)


def test_a_decision_is_given_the_members_of_its_group_and_what_was_decided_before_it(
    cloud, together
):
    group = a_group(uuid=GROUP_UUID)
    together.submit(a_request("req-0", group=APART), group=group)
    together.begin()
    requests = [a_request(f"req-{number}", node=1, group=APART) for number in (1, 2)]
    together.submit(*requests, group=group)
    together.begin()
    here = {a_uuid("req-0"): {"h2"}}
    assert together.members == [{}, here, here | {a_uuid("req-1"): {"h1"}}]


def test_members_of_which_the_database_refuses_to_tell_cost_the_others_nothing(
    cloud, together, monkeypatch
):
    def read(work):
        return refuse(work) if len(together.decided) < 1 else type(cloud).read(cloud, work)

    def refuse(_work):
        raise StatementRefused("no such value")

    monkeypatch.setattr(cloud, "read", read)
    refused = together.submit(a_request("req-1"), group=a_group())
    plain = together.submit(a_request("req-2"))
    together.begin()
    assert isinstance(refused[0].exception(0), StatementRefused)
    assert plain[0].result(0).answers == ["req-2"]


def test_documents_are_written_of_the_first_only_that_changes_them(cloud, together):
    """The second was decided on the cells as they were before the first."""
    documents = [{1: NodeDocuments(1, {NUMA: text})} for text in ("[1]", "[2]")]
    futures = together.submit(*(a_request(node=1, documents=each) for each in documents))
    plain = together.submit(a_request(node=1))
    together.begin()
    assert [type(each.exception(0)) for each in (*futures, *plain)] == [
        type(None),
        ClaimLost,
        type(None),
    ]
    node = sa.select(compute_nodes.c.numa_topology, compute_nodes.c.vcpus_used)
    assert cloud.read(lambda c: c.execute(node.where(compute_nodes.c.id == 1)).one()) == ("[1]", 8)


def test_a_decision_sees_all_that_was_decided_before_it(cloud, together):
    """Nothing is claimed before all of the round have decided, and then all at once."""
    seen = []

    def decide(name):
        seen.append((name, claimed(cloud)))
        return a_request(name)

    for name in ("req-1", "req-2"):
        together.loop.submit(lambda _, name=name: decide(name))
    together.begin()
    assert seen == [("req-1", set()), ("req-2", set())]
    together.loop.submit(lambda _: decide("req-3"))
    together.begin()
    assert seen[2] == ("req-3", {"req-1", "req-2"})


def test_who_decides_for_nothing_and_who_fails_cost_the_others_nothing(cloud, together):
    broken = ValueError("a plug-in")
    nothing, failed, placed = together.submit(None, broken, a_request("req-1"))
    together.begin()
    assert (nothing.result(0), failed.exception(0)) == (None, broken)
    assert placed.result(0).answers == ["req-1"]
    assert claimed(cloud) == {"req-1"}


def test_a_round_is_bounded(cloud, together, monkeypatch):
    monkeypatch.setattr(loop, "MOST_REQUESTS", 3)
    sizes, claim_each = [], loop.claims.claim_each

    def counting(connection, requests):
        sizes.append(len(requests))
        return claim_each(connection, requests)

    monkeypatch.setattr(loop.claims, "claim_each", counting)
    together.submit(*(a_request() for _ in range(8)))
    together.begin()
    assert (sizes, len(claimed(cloud))) == ([3, 3, 2], 8)


def test_what_a_transaction_has_changed_is_published_once(together):
    together.submit(a_request("req-1"), a_request("req-2", node=1), a_request("req-3"))
    together.begin()
    (changes,) = together.published
    changes = {each.node_id: each for each in changes}
    added = {node: [row.uuid for row in each.added] for node, each in changes.items()}
    assert added == {1: [a_uuid("req-2")], 2: [a_uuid("req-1"), a_uuid("req-3")]}
    assert (changes[2].before, changes[2].after, changes[2].claims) == (1, 3, 2)


def test_who_waits_no_longer_is_not_claimed_for(cloud, together):
    first = together.loop.pending(lambda _: together.decide(a_request("req-1"), None))
    together.loop.join(first)
    (second,) = together.submit(a_request("req-2"))
    first.attempt.is_over = True
    together.begin()
    assert [each.request_id for each in together.decided] == ["req-2"]
    assert second.result(0).answers == ["req-2"]
    assert claimed(cloud) == {"req-2"}


def test_one_whose_caller_has_given_up_is_not_decided(cloud, together):
    (late,) = together.submit(a_request("req-1"), deadline=Deadline(0.0, 0.0))
    others = together.submit(a_request("req-2"), a_request("req-3"))
    together.begin()
    assert isinstance(late.exception(0), TooLate)
    assert [each.result(0).answers for each in others] == [["req-2"], ["req-3"]]
    assert len(together.decided) == 2


class PassingWhenDecided:
    """A deadline that passes when its request is decided."""

    def __init__(self):
        self.looks = 0

    def passed(self):
        self.looks += 1
        return self.looks > 1

    def left(self):
        return -1.0 if self.looks else 1.0


def test_one_whose_caller_gives_up_meanwhile_does_not_cost_the_others_their_claims(cloud, together):
    (late,) = together.submit(a_request("req-1"), deadline=PassingWhenDecided())
    others = together.submit(a_request("req-2"), a_request("req-3"))
    together.begin()
    assert isinstance(late.exception(0), TooLate)
    assert [each.result(0).answers for each in others] == [["req-2"], ["req-3"]]
    assert claimed(cloud) == {"req-2", "req-3"}


@pytest.mark.parametrize("operation", ["read", "write"])
def test_all_hear_of_it_when_the_database_is_gone(cloud, together, monkeypatch, operation):
    gone = DatabaseUnavailable("gone")

    def fail(_work):
        raise gone

    monkeypatch.setattr(cloud, operation, fail)
    group = a_group() if operation == "read" else None
    futures = together.submit(a_request(), a_request(), group=group)
    together.begin()
    assert [each.exception(0) for each in futures] == [gone, gone]
    monkeypatch.undo()
    (after,) = together.submit(a_request())
    together.begin()
    assert after.result(0) is not None


class Slow:
    """Transactions that wait until they may begin: those that write, or that read."""

    def __init__(self, cloud, monkeypatch, operation="write"):
        self.may_run, self.under_way = Event(), Semaphore(0)
        self._run = getattr(cloud, operation)
        self._set = lambda run: monkeypatch.setattr(cloud, operation, run)
        self._set(self.run)

    def run(self, work):
        self.under_way.release()
        assert self.may_run.wait(PATIENCE)
        return self._run(work)

    def no_more(self):
        """Let those that begin from now on go on at once."""
        self._set(self._run)


def test_one_round_is_under_way_and_the_next_has_all_that_came_meanwhile(
    cloud, together, monkeypatch
):
    slow = Slow(cloud, monkeypatch)
    together.submit(a_request())
    end = CachedThreadPool().run(together.begin)
    assert slow.under_way.acquire(timeout=PATIENCE)
    waiting = together.submit(a_request(), a_request())
    together.loop.begin_round()
    assert together.works == []
    slow.may_run.set()
    assert end.result(PATIENCE) is None
    assert [each.exception(0) for each in waiting] == [None, None]
    assert (len(claimed(cloud)), len(together.published)) == (3, 2)


@pytest.mark.parametrize("operation", ["read", "write"])
def test_a_transaction_that_hangs_is_left_to_its_thread(cloud, together, monkeypatch, operation):
    monkeypatch.setattr(loop, "PATIENCE", 0.0)
    slow = Slow(cloud, monkeypatch, operation)
    (hanging,) = together.submit(a_request("req-1"), group=a_group())
    end = CachedThreadPool().run(together.begin)
    assert slow.under_way.acquire(timeout=PATIENCE)
    slow.no_more()
    (other,) = together.submit(a_request("req-2"))
    together.begin()
    assert other.result(0).answers == ["req-2"]
    assert not hanging.done()
    slow.may_run.set()
    assert hanging.result(PATIENCE).answers == ["req-1"]
    assert end.result(PATIENCE) is None
    assert len(together.published) == 2
    # Whoever hung runs no further round.
    (after,) = together.submit(a_request("req-3"))
    together.begin()
    assert after.result(0).answers == ["req-3"]


def test_everybody_is_answered_once_whoever_comes_when(cloud):
    """As many as there may be in flight; some come twice."""
    pool = CachedThreadPool()
    claiming = ClaimingLoop(cloud, pool.run)
    requests = [a_request(node=1 + number % 2) for number in range(30)]
    requests += requests[:4]
    coming = [pool.run(lambda one=one: claiming.submit(lambda _: one)) for one in requests]
    futures = [each.result(PATIENCE) for each in coming]
    found = [each.exception(PATIENCE) or each.result(0) for each in futures]
    lost = [each for each in found if isinstance(each, ClaimLost)]
    made = [each for each in found if not isinstance(each, ClaimLost) and not each.repeated]
    assert len(made) == 4 + 15
    assert all(each.nodes == {1} for each in lost)
    assert len(claimed(cloud)) == 19
