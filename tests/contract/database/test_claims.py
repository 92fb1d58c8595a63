# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.claims.claims: one transaction after the other."""

import pytest
import sqlalchemy as sa

from inventory import compute_nodes
from inventory.claims import claims, existing
from inventory.claims.group_locks import GroupUnlisted, ensure
from inventory.claims.numa_pci_usage import PCI
from inventory.claims.types import (
    GROUP,
    HOST,
    Claim,
    ClaimLost,
    ClaimRequest,
    GroupRule,
    NodeDocuments,
)
from inventory.objects import node_json
from inventory.tables import allocations as table
from tests.claimed import released_on
from tests.databases import a_node, a_uuid, save
from tests.devices import a_pool, devices

U1, U2, U3 = (a_uuid(f"instance {number}") for number in (1, 2, 3))
ROOM = {"vcpu": 16.0, "memory_mb": 65536.0, "disk_gb": 1000.0}


@pytest.fixture
def cloud(database):
    """Return a database with three empty nodes of 16 CPUs, 64 GB and 1000 GB."""
    empty = {"memory_mb_used": 0, "free_ram_mb": 65536}
    save(database, *(a_node(f"h{number}", id=number, **empty) for number in (1, 2, 3)))
    return database


def a_claim(uuid=U1, node=1, **changes):
    ordinary = {
        "instance_uuid": uuid,
        "node_id": node,
        "host": f"h{node}",
        "node": f"h{node}",
        "vcpus": 4,
        "memory_mb": 4096,
        "disk_mb": 1500,
        "limits": ROOM,
        "answer": f"answer of {uuid}",
    }
    return Claim(**ordinary | changes)


def an_order(*wanted, **changes):
    return ClaimRequest(
        **{"request_id": "req-1", "digest": "d", "claims": wanted, "lease": 900} | changes
    )


def claim(database, *wanted, **changes):
    order = an_order(*wanted, **changes)
    return database.write(lambda connection: claims.claim(connection, order))


def usage(database):
    """Return (vcpus, memory, exact disk, rounded disk, claims) of the nodes."""
    return [
        (row.vcpus_used, row.memory_mb_used, row.disk_mb_used, row.local_gb_used, row.claims)
        for row in database.read(compute_nodes.all_live)
    ]


def rows(database):
    return database.read(lambda c: c.execute(sa.select(table).order_by(table.c.id)).all())


def test_a_claim_is_what_the_node_has_less(cloud):
    done = claim(cloud, a_claim())
    assert (list(done.answers), done.repeated) == ([f"answer of {U1}"], False)
    first, second, _ = cloud.read(compute_nodes.all_live)
    assert (first.vcpus_used, first.memory_mb_used, first.free_ram_mb) == (4, 4096, 61440)
    assert (first.disk_mb_used, first.free_disk_mb) == (1500, 1024000 - 1500)
    assert (first.local_gb_used, first.free_disk_gb, first.claims) == (2, 998, 1)
    assert (first.generation, second.generation) == (2, 1)
    (row,) = rows(cloud)
    assert (row.state, row.slot, row.host, row.disk_mb) == ("pending", 0, "h1", 1500)
    assert (row.expires_at - row.created_at).total_seconds() == 900


@pytest.mark.parametrize(
    ("limits", "fits"),
    [
        ({"vcpu": 4.0}, True),
        ({"vcpu": 3.9}, False),
        ({"memory_mb": 4096.0}, True),
        ({"memory_mb": 4095.5}, False),
        ({"disk_gb": 1500 / 1024}, True),
        ({"disk_gb": 1499 / 1024}, False),
        ({}, True),
    ],
)
def test_a_claim_keeps_to_the_limits_that_filters_have_set(cloud, limits, fits):
    if fits:
        claim(cloud, a_claim(limits=limits))
    else:
        with pytest.raises(ClaimLost, match="a host has less room") as lost:
            claim(cloud, a_claim(limits=limits))
        assert (lost.value.nodes, lost.value.cause) == ({1}, HOST)
    assert [each[4] for each in usage(cloud)] == [int(fits), 0, 0]
    assert len(rows(cloud)) == int(fits)


def test_all_or_nothing(cloud):
    with pytest.raises(ClaimLost):
        claim(cloud, a_claim(U1, 1), a_claim(U2, 2, limits={"vcpu": 1.0}))
    assert usage(cloud) == [(0, 0, 0, 0, 0)] * 3
    assert rows(cloud) == []
    claim(cloud, a_claim(U1, 1), a_claim(U2, 1), a_claim(U3, 2))
    assert usage(cloud)[:2] == [(8, 8192, 3000, 3, 2), (4, 4096, 1500, 2, 1)]


def test_two_that_both_fit_both_succeed_and_the_next_does_not(cloud):
    for uuid in (U1, U2):
        claim(cloud, a_claim(uuid, limits={"vcpu": 8.0}), request_id=uuid)
    with pytest.raises(ClaimLost):
        claim(cloud, a_claim(U3, limits={"vcpu": 8.0}), request_id=U3)


def test_the_same_request_gets_the_same_answer_and_takes_nothing_more(cloud):
    claim(cloud, a_claim(U1), a_claim(U2, 2))
    again = claim(cloud, a_claim(U1, 3, answer="other"), a_claim(U2, 3, answer="other"))
    assert (list(again.answers), again.repeated) == ([f"answer of {U1}", f"answer of {U2}"], True)
    assert usage(cloud) == [(4, 4096, 1500, 2, 1)] * 2 + [(0, 0, 0, 0, 0)]


@pytest.mark.parametrize("changes", [{"request_id": "req-2"}, {"digest": "e"}])
def test_a_new_request_takes_the_place_of_what_was_pending(cloud, changes):
    claim(cloud, a_claim(U1), a_claim(U2))
    done = claim(cloud, a_claim(U1, 2, vcpus=1), **changes)
    assert (done.repeated, released_on(done)) == (False, {1})
    assert usage(cloud)[:2] == [(4, 4096, 1500, 2, 1), (1, 4096, 1500, 2, 1)]
    # On the same node only the difference counts.
    claim(cloud, a_claim(U1, 2, vcpus=16), request_id="req-3")
    assert usage(cloud)[1] == (16, 4096, 1500, 2, 1)


def test_a_deleted_node_has_no_room(cloud):
    cloud.write(lambda c: compute_nodes.delete(c, "h1", ["h1"]))
    with pytest.raises(ClaimLost):
        claim(cloud, a_claim(limits={}))


def test_what_is_released_is_free_again(cloud):
    claim(cloud, a_claim(U1), a_claim(U2, 2))
    over, _ = cloud.write(lambda c: claims.release_lost(c, {("h2", U1), ("h2", U2)}))
    assert {row.compute_node_id for row in over} == {2}
    assert usage(cloud) == [(4, 4096, 1500, 2, 1), (0, 0, 0, 0, 0), (0, 0, 0, 0, 0)]
    changed = cloud.write(lambda c: claims.release(c, [U1, U2]))
    assert {each.node_id for each in changed} == {1}
    assert usage(cloud) == [(0, 0, 0, 0, 0)] * 3
    assert rows(cloud) == []
    assert cloud.write(lambda c: claims.release(c, [U1])) == []


def test_the_devices_of_a_released_claim_are_free_again(cloud):
    three, two, one = (node_json.pci_pools_to_json(devices(a_pool(count))) for count in (3, 2, 1))
    save(cloud, a_node("h1", id=1, pci_stats=three))
    node = cloud.read(compute_nodes.all_live)[0]
    documents = {1: NodeDocuments(node.generation, {PCI: one})}
    claim(cloud, a_claim(pci=two), documents=documents)
    assert cloud.read(compute_nodes.all_live)[0].pci_stats == one
    cloud.write(lambda c: claims.release(c, [U1]))
    (pool,) = node_json.pci_pools_from_json(cloud.read(compute_nodes.all_live)[0].pci_stats)
    assert pool.count == 3


def test_an_alternate_is_claimed_where_it_fits_and_given_up_where_it_does_not(cloud):
    claim(
        cloud,
        a_claim(U1, answer='["h1"]'),
        a_claim(U1, 2, alternate=True, answer='["h2"]'),
        a_claim(U1, 3, alternate=True, answer='["h3"]', limits={"vcpu": 3.0}),
    )
    assert [each[4] for each in usage(cloud)] == [1, 1, 0]
    first, second = rows(cloud)
    assert (first.state, second.state, second.slot) == ("pending", "alternate", -2)
    # What was not claimed is not answered. The build may come there as long as to the first.
    assert (first.answer, second.answer) == ('["h1", "h2"]', None)
    assert second.expires_at == first.expires_at
    # A new request ends them all, also where its own alternate has no room.
    claim(cloud, a_claim(U1, 3), a_claim(U1, 2, vcpus=99, alternate=True), request_id="req-2")
    assert [each[4] for each in usage(cloud)] == [0, 0, 1]


def members(*uuids, **changes):
    return GroupRule(**{"uuid": "group", "members": uuids, "most": 1} | changes)


def test_members_of_a_group_are_kept_apart_by_those_who_claim(cloud):
    ensure(cloud, ["group"])
    ensure(cloud, ["group"])
    claim(cloud, a_claim(U1, 1), group=members())
    with pytest.raises(ClaimLost, match="the server group has come to h1") as lost:
        claim(cloud, a_claim(U2, 1), group=members(), request_id="req-2")
    assert (lost.value.nodes, lost.value.cause) == ({1}, GROUP)
    claim(cloud, a_claim(U2, 1), group=members(most=2), request_id="req-2")
    with pytest.raises(ClaimLost):
        claim(cloud, a_claim(U3, 2), group=members(most=None), request_id="req-3")
    claim(cloud, a_claim(U3, 1), group=members(most=None), request_id="req-3")


def test_a_group_of_which_nobody_has_heard_is_named(cloud):
    with pytest.raises(GroupUnlisted, match="no row to lock yet: server group group"):
        claim(cloud, a_claim(), group=members())


def test_an_instance_is_no_other_member_to_itself(cloud):
    ensure(cloud, ["group"])
    claim(cloud, a_claim(U1, 1), group=members(U1))
    claim(cloud, a_claim(U1, 1, vcpus=8), group=members(U1), request_id="req-2")
    assert usage(cloud)[0][0] == 8


def test_what_an_audit_sees_confirms_a_claim_and_ends_it(cloud):
    claim(cloud, a_claim(U1), a_claim(U2), a_claim(U3, in_place=True))

    def audit(connection, *seen):
        found, now = existing.on_nodes(connection, [1])
        settlement = existing.reconcile(found, dict.fromkeys(seen, (2, 4096)), now)
        existing.apply_reconciliation(connection, settlement)
        return [row.instance_uuid for row in settlement.pending]

    assert cloud.write(lambda c: audit(c, U1, U3)) == [U2, U3]
    assert [(row.state, row.slot) for row in rows(cloud)] == [
        ("confirmed", 1),
        ("pending", 0),
        ("pending", 0),
    ]
    # It answers its request still.
    assert claim(cloud, a_claim(U1, 2)).answers == [f"answer of {U1}"]
    assert cloud.write(lambda c: audit(c, U3)) == [U2, U3]
    assert [row.instance_uuid for row in rows(cloud)] == [U2, U3]


def test_what_waits_for_too_long_ends(cloud):
    claim(cloud, a_claim(U1, 1), lease=-1)
    claim(cloud, a_claim(U2, 2), request_id="req-2")
    assert cloud.read(lambda c: existing.overdue(c, [1, 2])) == {1}
    found, now = cloud.read(lambda c: existing.on_nodes(c, [1]))
    settlement = existing.reconcile(found, {}, now)
    assert (settlement.ended, settlement.pending) == ([found[0].id], [])
