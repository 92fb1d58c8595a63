# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the rows that stand for server groups while their members are claimed for."""

from dataclasses import replace

import pytest
import sqlalchemy as sa

from inventory.claims import claims, group_locks
from inventory.claims.group_locks import GroupMembers, GroupUnlisted
from inventory.claims.types import ClaimLost, GroupRule
from inventory.tables import claimed_groups as table
from scheduler.claims.claimer import TooLate
from scheduler.history import recorder
from scheduler.history.recorder import DecisionRecorder, Retention
from scheduler.wire.context import Deadline
from tests.claiming_loop import ClaimingLoop
from tests.contract.database.test_claims_together import a_claim, an_order, audit
from tests.databases import a_uuid
from tests.fixtures.daemons.process import wait_until

U1, U2, U3 = a_uuid("one"), a_uuid("two"), a_uuid("three")
APART = GroupRule("g1", (U1, U2), most=1)


@pytest.fixture
def claimer(cloud):
    return ClaimingLoop(cloud)


def rows(database):
    return database.read(lambda c: [*c.scalars(sa.select(table.c.uuid).order_by(table.c.uuid))])


def test_groups_without_claims_are_pruned(cloud, claimer):
    group_locks.ensure(cloud, ["z", "a", "g0"])
    claimer.claim(an_order("req-1", a_claim(U1, 1), group=APART))
    assert group_locks.prune(cloud) == 3
    assert rows(cloud) == ["g1"]
    assert group_locks.prune(cloud) == 0
    cloud.write(lambda c: claims.release(c, [U1]))
    assert group_locks.prune(cloud) == 1
    assert rows(cloud) == []


def test_groups_of_which_some_are_known_are_made_and_locked_at_once(cloud):
    group_locks.ensure(cloud, ["g2"])
    with pytest.raises(GroupUnlisted) as unlisted:
        cloud.write(lambda c: group_locks.lock(c, ["g3", "g2", "g1"]))
    assert unlisted.value.uuids == ["g1", "g3"]
    group_locks.ensure(cloud, ["g3", "g2", "g1"])
    cloud.write(lambda c: group_locks.lock(c, ["g3", "g2", "g1"]))
    assert rows(cloud) == ["g1", "g2", "g3"]


def test_groups_that_another_makes_at_the_same_time_cost_no_error(cloud, monkeypatch):
    read = cloud.read

    def read_before_another_makes_one(work):
        found = read(work)
        cloud.write(lambda c: c.execute(sa.insert(table).values(uuid="g2", claims=0)))
        return found

    monkeypatch.setattr(cloud, "read", read_before_another_makes_one)
    group_locks.ensure(cloud, ["g1", "g2"])
    monkeypatch.undo()
    assert rows(cloud) == ["g2"]
    group_locks.ensure(cloud, ["g1", "g2"])
    assert rows(cloud) == ["g1", "g2"]


def test_members_of_several_groups_are_told_apart(cloud, claimer):
    """One instance may be known of two groups."""
    claimer.claim(an_order("req-1", a_claim(U1, 1), group=replace(APART, uuid="g1")))
    claimer.claim(an_order("req-2", a_claim(U2, 2), group=replace(APART, uuid="g2")))
    groups = [GroupRule("g1", []), GroupRule("g2", [U1]), GroupRule("g3", [U3])]
    found = cloud.read(lambda c: GroupMembers.read(c, groups))
    assert found.of("g1") == {U1: {"h1"}}
    assert found.of("g2") == {U1: {"h1"}, U2: {"h2"}}
    assert found.of("g3") == {}


def test_a_group_that_was_pruned_is_claimed_for_again(cloud, claimer):
    for _ in range(2):
        claimer.claim(an_order("req-1", a_claim(U1, 1), group=APART))
        cloud.write(lambda c: claims.release(c, [U1]))
        group_locks.prune(cloud)
    assert rows(cloud) == []


def test_a_group_may_be_pruned_between_its_making_and_its_claim(cloud, claimer, monkeypatch):
    made, ensure = [], group_locks.ensure

    def hindered(database, uuids):
        made.extend(uuids)
        ensure(database, uuids)
        if len(made) < 3:
            group_locks.prune(database)

    monkeypatch.setattr(group_locks, "ensure", hindered)
    claimer.claim(an_order("req-1", a_claim(U1, 1), group=APART))
    assert made == ["g1"] * 3
    # The rule holds as ever.
    with pytest.raises(ClaimLost):
        claimer.claim(an_order("req-2", a_claim(U2, 1), group=APART))


def test_claims_go_on_while_groups_are_pruned_again_and_again(cloud, claimer, monkeypatch):
    monkeypatch.setattr(recorder, "PRUNE_INTERVAL", 0.001)
    pruned = []
    pruning = DecisionRecorder(
        cloud,
        "s1",
        Retention(max_age=60, max_number=1),
        prune_more=lambda: pruned.append(group_locks.prune(cloud)),
    )
    pruning.start()
    for number in range(30):
        group = replace(APART, uuid=f"g{number}")
        claimer.claim(an_order(f"req-{number}", a_claim(U1, 1), group=group))
        with pytest.raises(ClaimLost):
            claimer.claim(an_order(f"other-{number}", a_claim(U2, 1), group=group))
        cloud.write(lambda c: claims.release(c, [U1]))
    assert wait_until(lambda: rows(cloud) == [])
    pruning.stop()
    assert sum(pruned) >= 30


def test_a_claim_for_which_nobody_waits_any_more_is_not_tried(cloud, claimer):
    with pytest.raises(TooLate):
        claimer.claim(an_order("req-1", a_claim(U1, 1), group=APART), Deadline(0.0, 0.0))
    assert rows(cloud) == []


def test_a_group_that_is_deleted_each_time_is_given_up(cloud, claimer, monkeypatch):
    monkeypatch.setattr(group_locks, "ensure", lambda *_: None)
    with pytest.raises(ClaimLost, match="deleted again and again"):
        claimer.claim(an_order("req-1", a_claim(U1, 1), group=APART))


def confirmed(cloud, claimer, **nodes):
    """Claim for instances on the nodes of these numbers, and let audits find them there."""
    for uuid, node in nodes.items():
        claimer.claim(an_order(f"req {uuid}", a_claim(uuid, node), group=replace(APART, most=2)))
        cloud.write(lambda c, node=node: audit(c, node, nodes))


def test_the_places_of_instances_are_where_their_own_claims_are_confirmed(cloud, claimer):
    # The smallest id that a node can have is also the smallest slot of a confirmed claim.
    confirmed(cloud, claimer, **{U1: 1, U2: 2})
    claimer.claim(an_order("req-3", a_claim(U3, 3)))
    assert cloud.read(lambda c: group_locks.places(c, [U1])) == {(U1, "h1")}
    assert cloud.read(lambda c: group_locks.places(c, [U2, U3])) == {(U2, "h2")}


def test_an_instance_with_a_confirmed_claim_may_stay_beside_another_member(cloud, claimer):
    confirmed(cloud, claimer, **{U1: 1, U2: 1})
    claimer.claim(an_order("resize", a_claim(U1, 1, in_place=True), group=APART))
    with pytest.raises(ClaimLost, match="the server group has come to h1"):
        claimer.claim(an_order("build", a_claim(U3, 1), group=APART))
