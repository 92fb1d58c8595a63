# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the rows that stand for server groups while their members are claimed for."""

from dataclasses import replace

import pytest
import sqlalchemy as sa

from inventory import claimed_groups, claims
from inventory.claimed_groups import GroupRule
from inventory.claims import ClaimLost
from inventory.tables import claimed_groups as table
from scheduler.claiming import Claimer, Terms
from scheduler.claiming.claimer import TooLate
from scheduler.keeping import keeper
from scheduler.keeping.keeper import Keeper, Limits
from tests.contract.database.test_claims_together import a_claim, an_order
from tests.databases import a_uuid
from tests.fixtures.daemons.process import wait_until

U1, U2 = a_uuid("one"), a_uuid("two")
APART = GroupRule("g1", (U1, U2), most=1)


@pytest.fixture
def claimer(cloud):
    return Claimer(cloud, Terms())


def rows(database):
    return database.read(lambda c: [*c.scalars(sa.select(table.c.uuid).order_by(table.c.uuid))])


def test_groups_without_claims_are_pruned(cloud, claimer):
    for uuid in ("a", "g0", "z"):
        claimed_groups.ensure(cloud, uuid)
    claimer.claim(an_order("req-1", a_claim(U1, 1), group=APART))
    assert claimed_groups.prune(cloud) == 3
    assert rows(cloud) == ["g1"]
    assert claimed_groups.prune(cloud) == 0
    cloud.write(lambda c: claims.release(c, [U1]))
    assert claimed_groups.prune(cloud) == 1
    assert rows(cloud) == []


def test_a_group_that_was_pruned_is_claimed_for_again(cloud, claimer):
    for _ in range(2):
        claimer.claim(an_order("req-1", a_claim(U1, 1), group=APART))
        cloud.write(lambda c: claims.release(c, [U1]))
        claimed_groups.prune(cloud)
    assert rows(cloud) == []


def test_a_group_may_be_pruned_between_its_making_and_its_claim(cloud, claimer, monkeypatch):
    made, ensure = [], claimed_groups.ensure

    def hindered(database, uuid):
        made.append(uuid)
        ensure(database, uuid)
        if len(made) < 3:
            claimed_groups.prune(database)

    monkeypatch.setattr(claimed_groups, "ensure", hindered)
    claimer.claim(an_order("req-1", a_claim(U1, 1), group=APART))
    assert made == ["g1"] * 3
    # The rule holds as ever.
    with pytest.raises(ClaimLost):
        claimer.claim(an_order("req-2", a_claim(U2, 1), group=APART))


def test_claims_go_on_while_groups_are_pruned_again_and_again(cloud, claimer, monkeypatch):
    monkeypatch.setattr(keeper, "PRUNING", 0.001)
    pruned = []
    pruning = Keeper(
        cloud,
        "s1",
        Limits(max_age=60, max_number=1),
        prune_more=lambda: pruned.append(claimed_groups.prune(cloud)),
    )
    pruning.start()
    for number in range(30):
        group = replace(APART, uuid=f"g{number}")
        claimer.claim(an_order(f"req-{number}", a_claim(U1, 1), group=group))
        with pytest.raises(ClaimLost):
            claimer.claim(an_order(f"other-{number}", a_claim(U2, 1), group=group))
        cloud.write(lambda c: claims.release(c, [U1]))
    assert wait_until(lambda: rows(cloud) == [], 20)
    pruning.stop()
    assert sum(pruned) >= 30


def test_a_claim_for_which_nobody_waits_any_more_is_not_tried(cloud, claimer):
    with pytest.raises(TooLate):
        claimer.claim(an_order("req-1", a_claim(U1, 1), group=APART), lambda: -0.4)
    assert rows(cloud) == []


def test_a_group_that_is_deleted_each_time_is_given_up(cloud, claimer, monkeypatch):
    monkeypatch.setattr(claimed_groups, "ensure", lambda *_: None)
    with pytest.raises(ClaimLost, match="deleted again and again"):
        claimer.claim(an_order("req-1", a_claim(U1, 1), group=APART))
