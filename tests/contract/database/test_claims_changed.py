# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.claims.claims: what a transaction has read was changed meanwhile."""

from contextlib import contextmanager
from dataclasses import replace
from random import Random

import pytest
import sqlalchemy as sa

from inventory.claims import claims, existing
from inventory.claims.group_locks import ensure
from inventory.claims.repeats import Outdated, PartlyAnswered
from inventory.claims.types import INSTANCE, ClaimLost, GroupRule, Identity
from inventory.tables import allocations as table
from inventory.tables import instances
from tests.claimed import let_pass, released_on
from tests.contract.database.test_claims_together import (
    NODES,
    a_claim,
    an_order,
    assert_sums_are_right,
    audit,
    claiming,
    together,
)
from tests.databases import a_uuid, an_instance, open_at

U1, U2, U3 = (a_uuid(f"instance {number}") for number in (1, 2, 3))
GROUP = "group"


@contextmanager
def before_nodes_are_locked(database, url, act):
    """Let something happen once, after claims were read and before any node is locked.

    Others do it on MariaDB. SQLite lets nobody else write meanwhile: the same connection does.
    """
    done = []

    def look(connection, _cursor, statement, *_):
        if done or "compute_nodes" not in statement:
            return
        done.append(True)
        if database.engine.dialect.name == "sqlite":
            act(connection)
        else:
            other = open_at(url)
            other.write(act)
            other.close()

    sa.event.listen(database.engine, "before_cursor_execute", look)
    try:
        yield
    finally:
        sa.event.remove(database.engine, "before_cursor_execute", look)
    assert done


def rows(database):
    return database.read(lambda c: c.execute(sa.select(table).order_by(table.c.id)).all())


def same(database):
    """Return what must stay as it is: the claims, and what their nodes count."""
    assert_sums_are_right(database)
    return rows(database)


def identity(request, *uuids, digest="d", attempt=0):
    return Identity(request, digest, uuids, attempt)


# An instance has a claim of req-1 on node 3.
LATE = {
    "claim": lambda c: claims.claim(c, an_order("req-3", a_claim(U1, 1))),
    "claim on the same node": lambda c: claims.claim(c, an_order("req-3", a_claim(U1, 3))),
    "repeat": lambda c: claims.claim(c, an_order("req-1", a_claim(U1, 3))),
    "release": lambda c: claims.release(c, [U1]),
    "make way": lambda c: claims.release_stale(c, identity("req-3", U1), 900),
}
MEANWHILE = {
    "claimed over": (lambda c: claims.claim(c, an_order("req-2", a_claim(U1, 2))), {2: "pending"}),
    "released": (lambda c: claims.release(c, [U1]), {}),
    "confirmed": (lambda c: audit(c, 3, [U1]), {3: "confirmed"}),
}


@pytest.mark.parametrize("meanwhile", MEANWHILE)
@pytest.mark.parametrize("late", LATE)
def test_what_has_changed_since_it_was_read_is_not_given_back(url, cloud, late, meanwhile):
    claiming(an_order("req-1", a_claim(U1, 3)))(cloud)
    act, left = MEANWHILE[meanwhile]
    with (
        before_nodes_are_locked(cloud, url, act),
        pytest.raises(ClaimLost, match="an older claim has changed or ended") as lost,
    ):
        cloud.write(LATE[late])
    assert lost.value.cause == INSTANCE
    assert_sums_are_right(cloud)
    # With SQLite, what the same connection did is rolled back as well.
    if cloud.engine.dialect.name != "sqlite":
        assert {row.compute_node_id: row.state for row in rows(cloud)} == left


def test_many_who_replace_and_release_the_same_claims_keep_the_sums_right(url, cloud):
    uuids = [a_uuid(f"shared {number}") for number in range(4)]

    def churning(number):
        drawn = Random(number)

        def work(database):
            for turn in range(30):
                some = drawn.sample(uuids, drawn.randint(1, 3))
                wanted = [a_claim(uuid, drawn.choice(NODES)) for uuid in some]
                try:
                    claiming(an_order(f"req {number} {turn}", *wanted))(database)
                    if turn % 5 == 4:
                        database.write(lambda c, some=some: claims.release(c, some))
                except ClaimLost:
                    pass

        return work

    assert together(url, *map(churning, range(4))) == [None] * 4
    assert_sums_are_right(cloud)


@pytest.mark.parametrize("state", ["pending", "confirmed"])
def test_a_request_that_is_late_changes_nothing_of_a_later_attempt(cloud, state):
    claiming(an_order("req-1", a_claim(U1, 1), attempt=3))(cloud)
    if state == "confirmed":
        cloud.write(lambda c: audit(c, 1, [U1]))
    before = same(cloud)
    late = an_order("req-1", a_claim(U1, 2), a_claim(U2, 2), digest="e", attempt=1)
    with pytest.raises(Outdated, match=f"holds the claim of instance {U1}") as error:
        claiming(late)(cloud)
    assert error.value.uuid == U1
    with pytest.raises(Outdated):
        cloud.write(lambda c: claims.release_stale(c, late.identity, 900))
    assert same(cloud) == before


@pytest.mark.parametrize(
    ("request_id", "attempt"), [("req-1", 4), ("req-1", 3), ("req-2", 1), (None, 1)]
)
def test_who_is_not_late_takes_the_place_of_a_claim(cloud, request_id, attempt):
    claiming(an_order("req-1", a_claim(U1, 1), attempt=3))(cloud)
    new = an_order(request_id, a_claim(U1, 2), digest="e", attempt=attempt)
    assert released_on(claiming(new)(cloud)) == {1}
    assert [row.compute_node_id for row in same(cloud)] == [2]


def test_without_an_id_no_request_is_the_same(cloud):
    claiming(an_order(None, a_claim(U1, 1)))(cloud)
    again = claiming(an_order(None, a_claim(U1, 2), attempt=0))(cloud)
    assert (again.repeated, list(again.answers)) == (False, [f"{U1} on 2"])
    cloud.write(lambda c: audit(c, 2, [U1]))
    assert not claiming(an_order(None, a_claim(U1, 3)))(cloud).repeated
    found = cloud.write(lambda c: claims.release_stale(c, identity(None, U1), 900))
    assert released_on(found) == {3}


def test_those_that_are_answered_are_named(cloud):
    claiming(an_order("req-1", *(a_claim(uuid, 1) for uuid in (U1, U2, U3))))(cloud)
    cloud.write(lambda c: audit(c, 1, [U1]))
    cloud.write(lambda c: claims.release(c, [U3]))
    before = same(cloud)
    whole = an_order("req-1", *(a_claim(uuid, 2) for uuid in (U3, U2, U1)))
    for late in (
        lambda c: claims.claim(c, whole),
        lambda c: claims.release_stale(c, whole.identity, 900),
    ):
        with pytest.raises(PartlyAnswered) as error:
            cloud.write(late)
        assert error.value.answers == {U1: f"{U1} on 1", U2: f"{U2} on 1"}
    assert same(cloud) == before


def test_answers_that_were_given_before_are_renewed_with_the_claims_of_the_others(cloud):
    claiming(an_order("req-1", *(a_claim(uuid, 1) for uuid in (U1, U2, U3))))(cloud)
    cloud.write(lambda c: audit(c, 1, [U1]))
    cloud.write(lambda c: claims.release(c, [U3]))
    let_pass(cloud, 800)
    rest = replace(an_order("req-1", a_claim(U3, 2)), answered=[U1, U2])
    assert cloud.write(lambda c: claims.claim_each(c, [rest])) == ([None], [])
    assert list(claiming(rest)(cloud).answers) == [f"{U3} on 2"]
    let_pass(cloud, 200)
    assert cloud.read(lambda c: existing.overdue(c, NODES)) == set()
    assert [row.instance_uuid for row in same(cloud)] == [U1, U2, U3]
    # What came meanwhile, of the same call that came twice, is no reason to renew less.
    let_pass(cloud, 600)
    assert claiming(rest)(cloud).repeated
    let_pass(cloud, 200)
    assert cloud.read(lambda c: existing.overdue(c, NODES)) == set()


@pytest.mark.parametrize("by", ["claim", "make way"])
def test_an_answer_that_was_given_before_and_has_ended_is_not_given_again(cloud, by):
    claiming(an_order("req-1", a_claim(U1, 1), a_claim(U2, 1)))(cloud)
    cloud.write(lambda c: claims.release(c, [U1, U2]))
    before = same(cloud)
    rest = replace(an_order("req-1", a_claim(U2, 2)), answered=[U1])
    late = {
        "claim": lambda c: claims.claim(c, rest),
        "make way": lambda c: claims.release_stale(c, rest.identity, 900),
    }
    with pytest.raises(ClaimLost, match="has ended"):
        cloud.write(late[by])
    assert same(cloud) == before


@pytest.mark.parametrize("by", ["claim", "make way"])
def test_an_answer_that_is_given_again_begins_its_lease_anew(cloud, by):
    order = an_order("req-1", a_claim(U1, 1), a_claim(U2, 2))
    claiming(order)(cloud)
    cloud.write(lambda c: audit(c, 1, [U1]))
    let_pass(cloud, 800)
    if by == "claim":
        assert claiming(order)(cloud).repeated
    else:
        assert cloud.write(lambda c: claims.release_stale(c, order.identity, 900)).repeated
    let_pass(cloud, 200)
    assert cloud.read(lambda c: existing.overdue(c, NODES)) == set()
    assert [(row.state, row.expires_at is None) for row in same(cloud)] == [
        ("confirmed", True),
        ("pending", False),
    ]


def test_a_resize_of_what_no_agent_has_seen_yet_waits_for_its_new_size(cloud):
    claiming(an_order("boot", a_claim(U1, 1)))(cloud)
    claiming(an_order("resize", a_claim(U1, 1, memory_mb=8192)))(cloud)
    claiming(an_order("other", a_claim(U2, 1)))(cloud)
    claiming(an_order("move", a_claim(U2, 2)))(cloud)
    found, now = cloud.read(lambda c: existing.on_nodes(c, NODES))
    assert {row.instance_uuid: row.in_place for row in found} == {U1: True, U2: False}
    for memory_mb, confirmed in ((4096, 0), (8192, 1)):
        settlement = existing.reconcile(found, {U1: (4, memory_mb)}, now)
        assert len(settlement.confirmed) == confirmed


def in_group(database, uuid, node, **changes):
    rule = GroupRule(**{"uuid": GROUP, "members": [], "most": 1} | changes)
    return claiming(an_order(f"req {uuid}", a_claim(uuid, node), group=rule))(database)


def test_who_stays_in_its_place_may_have_other_members_beside_it(cloud):
    """Both came to be there before there was a rule."""
    ensure(cloud, [GROUP])
    there = [an_instance(uuid, host="h1", node="h1", deleted=0) for uuid in (U1, U2)]
    cloud.write(lambda c: c.execute(sa.insert(instances), there))
    in_group(cloud, U1, 1, members=[U1, U2, U3])
    with pytest.raises(ClaimLost, match="the server group has come to h1"):
        in_group(cloud, U3, 1, members=[U1, U2, U3])


def test_a_member_for_whom_the_rule_is_not_enforced_is_known_to_others(cloud):
    """The group that its caller sent did not list it."""
    ensure(cloud, [GROUP])
    in_group(cloud, U1, 1)
    in_group(cloud, U2, 1, enforced=False, most=None)
    with pytest.raises(ClaimLost, match="the server group has come to h1"):
        in_group(cloud, U3, 1, most=2)
    in_group(cloud, U3, 2)
