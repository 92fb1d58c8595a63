# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the claims of instances that are moved before the agents of their hosts saw them."""

import pytest
import sqlalchemy as sa

from inventory.claims import claims, existing
from inventory.claims.types import COMING, Identity, PendingClaim
from inventory.tables import allocations as table
from tests.contract.database.test_claims_together import (
    a_claim,
    an_order,
    assert_sums_are_right,
    audit,
    claiming,
)
from tests.databases import a_uuid

U1 = a_uuid("instance 1")


def states(database):
    """Return {node: state} of the claims of the instance."""
    rows = database.read(lambda c: c.execute(sa.select(table)).all())
    assert_sums_are_right(database)
    return {row.compute_node_id: row.state for row in rows}


def a_move(node, leaves, request="move", **changes):
    return an_order(request, a_claim(U1, node), leaves=leaves, **changes)


@pytest.fixture
def moving(cloud):
    """Return a cloud in which an instance is to move from node 1 to node 2."""
    claiming(an_order("boot", a_claim(U1, 1)))(cloud)
    # The time of a claim is late by what its first question took, which may be long here.
    earlier = {"created_at": sa.text("'2020-01-01 00:00:00.000000'")}
    cloud.write(lambda c: c.execute(sa.update(table).values(earlier)))
    claiming(a_move(2, "h1"))(cloud)
    assert states(cloud) == {1: "leaving", 2: "pending"}
    return cloud


def test_the_room_of_an_alternate_is_kept_if_the_instance_was_built_there(cloud):
    alternate = a_claim(U1, 2, alternate=True, answer=None)
    claiming(an_order("boot", a_claim(U1, 1), alternate))(cloud)
    claiming(a_move(3, "h2"))(cloud)
    assert states(cloud) == {2: "leaving", 3: "pending"}


def test_hosts_that_the_request_has_tried_before_keep_nothing(moving):
    claiming(a_move(3, "h1", attempt=1, digest="e"))(moving)
    assert states(moving) == {1: "leaving", 3: "pending"}


def test_a_resize_that_may_stay_keeps_the_room_wherever_the_instance_may_be(cloud):
    alternate = a_claim(U1, 2, alternate=True, answer=None)
    claiming(an_order("boot", a_claim(U1, 1), alternate))(cloud)
    again = a_claim(U1, 2, alternate=True, answer=None)
    claiming(an_order("resize", a_claim(U1, 3), again, leaves=""))(cloud)
    assert states(cloud) == {1: "leaving", 2: "leaving", 3: "pending"}
    # Its next attempt replaces what the one before has claimed.
    claiming(an_order("resize", a_claim(U1, 3), leaves="", attempt=1, digest="e"))(cloud)
    assert states(cloud) == {1: "leaving", 2: "leaving", 3: "pending"}


def test_an_instance_that_is_resized_unseen_has_room_for_each_of_its_sizes(cloud):
    claiming(an_order("boot", a_claim(U1, 1)))(cloud)
    for number in range(2):
        claiming(an_order(f"resize {number}", a_claim(U1, 1), leaves=""))(cloud)
    rows = cloud.read(lambda c: c.execute(sa.select(table).order_by(table.c.id)).all())
    assert [row.state for row in rows] == ["leaving", "leaving", "pending"]
    assert_sums_are_right(cloud)
    cloud.write(lambda c: audit(c, 1, [U1]))
    (left,) = cloud.read(lambda c: c.execute(sa.select(table)).all())
    assert (left.state, left.request_id) == ("confirmed", "resize 1")
    assert_sums_are_right(cloud)


def test_an_instance_that_goes_back_has_its_room_once(moving):
    claiming(a_move(1, "h2", request="back"))(moving)
    assert states(moving) == {1: "pending", 2: "leaving"}


def test_a_move_that_finds_no_host_keeps_the_room(cloud):
    claiming(an_order("boot", a_claim(U1, 1)))(cloud)
    for leaves in ("h1", ""):
        move = Identity("move", "d", [U1], leaves=leaves)
        assert cloud.write(lambda c, move=move: claims.release_stale(c, move, 900)) is None
    assert states(cloud) == {1: "pending"}
    other = Identity("other", "d", [U1], leaves="h2")
    assert cloud.write(lambda c: claims.release_stale(c, other, 900))
    assert states(cloud) == {}


def test_a_move_that_is_given_up_keeps_the_room(moving):
    moving.write(lambda c: claims.release(c, [U1], COMING))
    assert states(moving) == {1: "leaving"}
    # An operator may say that it is not there.
    moving.write(lambda c: claims.release(c, [U1]))
    assert states(moving) == {}


def test_a_plan_moves_no_instance_that_its_agent_has_not_seen(moving):
    moving.write(lambda c: claims.release(c, [U1], COMING))
    with pytest.raises(PendingClaim, match="on host h1"):
        claiming(an_order("plan", a_claim(U1, 3), replaces=False))(moving)
    assert states(moving) == {1: "leaving"}


def test_it_may_still_run_where_it_was_once_it_is_seen_elsewhere(moving):
    moving.write(lambda c: audit(c, 2, [U1]))
    assert moving.write(lambda c: claims.release_elsewhere(c, [U1])) == []
    assert states(moving) == {1: "leaving", 2: "confirmed"}
    # The agent there looks.
    moving.write(lambda c: audit(c, 1, [], existing.superseded(c, [1])))
    assert states(moving) == {2: "confirmed"}


@pytest.mark.parametrize("is_there", [True, False])
def test_the_agent_of_its_host_says_whether_it_is_there(moving, is_there):
    moving.write(lambda c: audit(c, 1, [U1] if is_there else []))
    kept = "confirmed" if is_there else "leaving"
    assert states(moving) == {1: kept, 2: "pending"}
    assert moving.write(lambda c: claims.release_elsewhere(c, [U1])) == []


def test_a_host_that_has_lost_it_has_its_room_again(moving):
    moving.write(lambda c: claims.release_lost(c, {("h1", U1)}))
    assert states(moving) == {2: "pending"}
