# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of claims for alternates, which must be in nobody's way."""

import pytest
import sqlalchemy as sa

from inventory.claims import claims, existing
from inventory.claims.existing import Reconciliation
from inventory.claims.group_locks import ensure
from inventory.claims.types import ClaimLost, GroupRule
from inventory.tables import allocations as table
from inventory.tables import compute_nodes as nodes
from tests.contract.database.test_claims_together import (
    a_claim,
    an_order,
    assert_sums_are_right,
    claiming,
)
from tests.databases import a_uuid

U1, U2, U3 = (a_uuid(f"instance {number}") for number in (1, 2, 3))
GROUP = "group"


@pytest.fixture
def cloud(cloud):
    """Return the same with a group."""
    ensure(cloud, [GROUP])
    return cloud


def an_alternate(uuid, node, **changes):
    return a_claim(uuid, node, alternate=True, answer=None, **changes)


def held(database):
    """Return {(instance, node): state} of all claims."""
    rows = database.read(lambda c: c.execute(sa.select(table)).all())
    assert_sums_are_right(database)
    return {(row.instance_uuid, row.compute_node_id): row.state for row in rows}


def test_an_alternate_without_room_leaves_the_claim_of_its_neighbour(cloud):
    wanted = a_claim(U1, 1), a_claim(U2, 2), an_alternate(U1, 2, vcpus=99)
    done = claiming(an_order("req-1", *wanted))(cloud)
    assert list(done.answers) == [f"{U1} on 1", f"{U2} on 2"]
    assert held(cloud) == {(U1, 1): "pending", (U2, 2): "pending"}


def test_an_alternate_answers_nothing(cloud):
    order = an_order("req-1", a_claim(U1, 1), an_alternate(U1, 2))
    claiming(order)(cloud)
    again = claiming(order)(cloud)
    assert (list(again.answers), again.repeated) == ([f"{U1} on 1"], True)
    cloud.write(lambda c: claims.release_lost(c, {("h1", U1)}))
    assert not claiming(order)(cloud).repeated
    assert held(cloud) == {(U1, 1): "pending", (U1, 2): "alternate"}


def test_a_claim_without_room_is_lost_with_its_neighbour_s_alternate(cloud):
    wanted = a_claim(U1, 1), a_claim(U2, 2, vcpus=99), an_alternate(U1, 2)
    with pytest.raises(ClaimLost) as lost:
        claiming(an_order("req-1", *wanted))(cloud)
    assert (lost.value.nodes, held(cloud)) == ({2}, {})


def test_members_that_belong_together_have_no_alternates(cloud):
    """Neither may one of them go elsewhere, nor may the next one follow it there."""
    rule = GroupRule(GROUP, (U1, U2), most=None)
    claiming(an_order("req-1", a_claim(U1, 1), an_alternate(U1, 2), group=rule))(cloud)
    assert held(cloud) == {(U1, 1): "pending"}


def test_nobody_joins_a_group_at_an_alternate(cloud):
    # It was claimed before the instance was in the group.
    claiming(an_order("req-1", a_claim(U1, 1), an_alternate(U1, 2)))(cloud)
    rule = GroupRule(GROUP, (U1, U2), most=None)
    with pytest.raises(ClaimLost, match="the server group has come to h2"):
        claiming(an_order("req-2", a_claim(U2, 2), group=rule))(cloud)
    claiming(an_order("req-2", a_claim(U2, 1), group=rule))(cloud)


def test_members_that_are_apart_have_their_alternates_apart(cloud):
    rule = GroupRule(GROUP, (U1, U2, U3), most=1)
    first = a_claim(U1, 1), a_claim(U2, 2), an_alternate(U1, 2), an_alternate(U2, 3)
    claiming(an_order("req-1", *first, an_alternate(U1, 3), group=rule))(cloud)
    assert held(cloud) == {(U1, 1): "pending", (U2, 2): "pending", (U2, 3): "alternate"}
    with pytest.raises(ClaimLost):
        claiming(an_order("req-2", a_claim(U3, 3), group=rule))(cloud)


def test_what_was_claimed_on_a_row_that_is_gone_can_be_given_up(cloud):
    claiming(an_order("req-1", a_claim(U1, 1), a_claim(U2, 2)))(cloud)
    cloud.write(lambda c: c.execute(sa.delete(nodes).where(nodes.c.id == 1)))
    assert cloud.write(lambda c: claims.release(c, [U1])) == []
    assert held(cloud) == {(U2, 2): "pending"}


def confirm(database, uuid, node):
    """Let an audit see an instance on a node, where it is claimed for."""
    here = sa.and_(table.c.instance_uuid == uuid, table.c.compute_node_id == node)
    ids = database.read(lambda c: c.scalars(sa.select(table.c.id).where(here)).all())
    database.write(lambda c: existing.apply_reconciliation(c, Reconciliation(confirmed=list(ids))))


def states(database):
    rows = database.read(lambda c: c.execute(sa.select(table)).all())
    return {(row.instance_uuid, row.compute_node_id): row.state for row in rows}


def test_an_instance_that_has_come_to_an_alternate_holds_nothing_elsewhere(cloud):
    claimed = a_claim(U1, 1), a_claim(U2, 1), an_alternate(U1, 2), an_alternate(U1, 3)
    claiming(an_order("req-1", *claimed))(cloud)
    confirm(cloud, U1, 2)
    # Whoever has seen it may not come to give it back: the audits of these nodes find it.
    ids = cloud.read(lambda c: existing.superseded(c, [1, 2, 3]))
    assert (len(ids), cloud.read(lambda c: existing.overdue(c, [1, 2, 3]))) == (2, {1, 3})
    changed = cloud.write(lambda c: claims.release_elsewhere(c, [U1]))
    assert {each.node_id for each in changed} == {1, 3}
    assert states(cloud) == {(U2, 1): "pending", (U1, 2): "confirmed"}
    assert cloud.write(lambda c: claims.release_elsewhere(c, [U1])) == []


def test_an_instance_that_is_to_move_holds_where_it_goes(cloud):
    claiming(an_order("req-1", a_claim(U1, 1)))(cloud)
    confirm(cloud, U1, 1)
    # The time of a claim is late by what its first question took, which may be long here.
    earlier = {"created_at": sa.text("'2020-01-01 00:00:00.000000'")}
    cloud.write(lambda c: c.execute(sa.update(table).values(earlier)))
    claiming(an_order("req-2", a_claim(U1, 2), an_alternate(U1, 3)))(cloud)
    assert cloud.write(lambda c: claims.release_elsewhere(c, [U1])) == []
    assert cloud.read(lambda c: existing.superseded(c, [1, 2, 3])) == set()
    confirm(cloud, U1, 3)
    changed = cloud.write(lambda c: claims.release_elsewhere(c, [U1]))
    assert {each.node_id for each in changed} == {2}
    assert states(cloud) == {(U1, 1): "confirmed", (U1, 3): "confirmed"}


def test_the_host_of_an_instance_is_no_alternate_of_its_resize(cloud):
    """With the size that it has there, the next audit would take it for come."""
    claiming(an_order("req-1", a_claim(U1, 1)))(cloud)
    confirm(cloud, U1, 1)
    resize = a_claim(U1, 2), an_alternate(U1, 1), an_alternate(U1, 3)
    done = claiming(an_order("req-2", *resize))(cloud)
    assert done.refused == 1
    assert states(cloud) == {(U1, 1): "confirmed", (U1, 2): "pending", (U1, 3): "alternate"}


def test_a_resize_that_stays_on_its_host_has_no_alternates(cloud):
    """The next audit would take it for done, and give them back."""
    claiming(an_order("req-1", a_claim(U1, 1)))(cloud)
    confirm(cloud, U1, 1)
    claiming(an_order("req-2", a_claim(U1, 1), an_alternate(U1, 2)))(cloud)
    assert {node for _, node in states(cloud)} == {1}


def test_a_host_that_was_no_alternate_keeps_room_until_its_agent_looks(cloud):
    claiming(an_order("req-1", a_claim(U1, 1)))(cloud)
    claiming(an_order("req-2", a_claim(U1, 2), an_alternate(U1, 1)))(cloud)
    assert held(cloud) == {(U1, 1): "leaving", (U1, 2): "pending"}


def test_an_instance_without_a_claim_is_on_a_host_that_reports_it(cloud):
    """As one that ran before its cloud had claims."""
    orders = [
        an_order("req-1", a_claim(U1, 2), an_alternate(U1, 1, in_place=True), an_alternate(U1, 3)),
        an_order("req-2", a_claim(U2, 2, in_place=True), an_alternate(U2, 3)),
    ]
    cloud.write(lambda c: claims.claim_each(c, orders))
    assert held(cloud) == {(U1, 2): "pending", (U1, 3): "alternate", (U2, 2): "pending"}


def test_the_next_attempt_of_a_build_holds_alternates_where_the_first_did(cloud):
    first = a_claim(U1, 1), an_alternate(U1, 2), an_alternate(U1, 3)
    claiming(an_order("req-1", *first))(cloud)
    again = a_claim(U1, 2), an_alternate(U1, 3)
    claiming(an_order("req-1", *again, digest="e", attempt=1))(cloud)
    assert held(cloud) == {(U1, 2): "pending", (U1, 3): "alternate"}


def test_what_a_host_has_lost_goes_to_no_alternate(cloud):
    claiming(an_order("req-1", a_claim(U1, 1), an_alternate(U1, 2), an_alternate(U1, 3)))(cloud)
    over, _ = cloud.write(lambda c: claims.release_lost(c, {("h2", U1)}))
    assert {row.compute_node_id for row in over} == {1, 2, 3}
    assert states(cloud) == {}


def test_alternates_are_renewed_with_the_claim_that_they_are_for(cloud):
    order = an_order("req-1", a_claim(U1, 1), an_alternate(U1, 2))
    claiming(order)(cloud)
    cloud.write(lambda c: c.execute(sa.update(table).values(expires_at=table.c.created_at)))
    assert claiming(order)(cloud).repeated
    rows = cloud.read(lambda c: c.execute(sa.select(table)).all())
    assert all(row.expires_at > row.created_at for row in rows)
    assert rows[0].expires_at == rows[1].expires_at


def test_what_is_renewed_is_claimed_on_the_host_and_not_there_yet(cloud):
    claiming(an_order("req-1", a_claim(U1, 1), an_alternate(U1, 2)))(cloud)
    claiming(an_order("req-2", a_claim(U2, 1)))(cloud)
    claiming(an_order("req-3", a_claim(U3, 1)))(cloud)
    confirm(cloud, U3, 1)
    cloud.write(
        lambda c: c.execute(
            sa.update(table)
            .where(table.c.state != "confirmed")
            .values(expires_at=table.c.created_at)
        )
    )
    cloud.write(lambda c: claims.renew(c, {("h1", U1), ("h2", U2), ("h1", U3)}, 60))
    rows = cloud.read(lambda c: c.execute(sa.select(table)).all())
    renewed = {
        (row.instance_uuid, row.compute_node_id)
        for row in rows
        if row.expires_at is not None and row.expires_at > row.created_at
    }
    assert renewed == {(U1, 1)}


def test_a_longer_lease_is_never_shortened(cloud):
    claiming(an_order("req-1", a_claim(U1, 1)))(cloud)

    def renewed_for(lease):
        cloud.write(lambda c: claims.renew(c, {("h1", U1)}, lease))
        return cloud.read(lambda c: c.execute(sa.select(table.c.expires_at)).scalar_one())

    long = renewed_for(5000)
    assert renewed_for(60) == long
    assert renewed_for(9000) > long
