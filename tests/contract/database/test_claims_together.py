# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.claims.claims: many at once, each in a thread with connections of its own."""

from collections import Counter
from threading import Barrier, Thread

import pytest
import sqlalchemy as sa

from inventory import compute_nodes
from inventory.claims import claims, existing
from inventory.claims.group_locks import ensure
from inventory.claims.types import CONFIRMED, Claim, ClaimLost, ClaimRequest, GroupRule
from inventory.tables import allocations as table
from inventory.tables import compute_nodes as nodes
from tests.databases import a_uuid, open_at
from tests.fixtures.daemons.process import PATIENCE

NODES = (1, 2, 3)
VCPUS = 4


def a_claim(uuid, node, **changes):
    ordinary = {
        "instance_uuid": uuid,
        "node_id": node,
        "host": f"h{node}",
        "node": f"h{node}",
        "vcpus": VCPUS,
        "memory_mb": 4096,
        "disk_mb": 1500,
        "limits": {"vcpu": 16.0, "memory_mb": 65536.0, "disk_gb": 1000.0},
        "answer": f"{uuid} on {node}",
    }
    return Claim(**ordinary | changes)


def an_order(request, *wanted, **changes):
    return ClaimRequest(
        **{"request_id": request, "digest": "d", "claims": wanted, "lease": 900} | changes
    )


def together(url, *works):
    """Begin works at the same moment, each with a database of its own; return what they returned.

    A ClaimLost is what a work may return as well.
    """
    begin = Barrier(len(works), timeout=PATIENCE)
    found = [None] * len(works)

    def run(number, work):
        own = open_at(url)
        begin.wait()
        try:
            found[number] = work(own)
        except Exception as error:
            found[number] = error
        finally:
            own.close()

    threads = [Thread(target=run, args=each) for each in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def claiming(order):
    return lambda database: database.write(lambda connection: claims.claim(connection, order))


def until_claimed(order):
    """Claim as schedulers do, who try again when they have lost."""

    def work(database):
        for _ in range(20):
            try:
                return claiming(order)(database)
            except ClaimLost:
                pass
        raise AssertionError("lost again and again")

    return work


def auditing(database, seen):
    """Recount a node from zero as agents do: its row is locked first."""
    for node in NODES:
        database.write(lambda connection, node=node: audit(connection, node, seen))


def audit(connection, node, seen, superseded=()):
    compute_nodes.lock(connection, [node])
    rows, now = existing.on_nodes(connection, [node])
    sizes = dict.fromkeys(seen, (VCPUS, 4096))
    settlement = existing.reconcile(rows, sizes, now, superseded)
    existing.apply_reconciliation(connection, settlement)
    there = len(settlement.confirmed) + sum(row.state == CONFIRMED for row in rows)
    there -= sum(row.state == CONFIRMED and row.id in settlement.ended for row in rows)
    counted = there + len(settlement.pending)
    figures = {
        "vcpus_used": VCPUS * counted,
        "memory_mb_used": 4096 * counted,
        "free_ram_mb": 65536 - 4096 * counted,
        "disk_mb_used": 1500 * counted,
        "free_disk_mb": 1024000 - 1500 * counted,
        "local_gb_used": -(-1500 * counted // 1024),
        "claims": len(settlement.pending),
        "generation": nodes.c.generation + 1,
    }
    connection.execute(sa.update(nodes).where(nodes.c.id == node).values(**figures))


def assert_sums_are_right(database):
    """Compare the usage of all nodes with the claims on them, confirmed ones being guests."""
    rows = database.read(lambda c: c.execute(sa.select(table)).all())
    all_of, waiting = Counter(), Counter()
    for row in rows:
        all_of[row.compute_node_id] += 1
        waiting[row.compute_node_id] += row.state != CONFIRMED
    for node in database.read(compute_nodes.all_live):
        number = all_of[node.id]
        assert (node.vcpus_used, node.memory_mb_used) == (VCPUS * number, 4096 * number)
        assert (node.disk_mb_used, node.free_disk_mb) == (1500 * number, 1024000 - 1500 * number)
        assert (node.claims, node.vcpus_used <= 16) == (waiting[node.id], True)


def deadlocks(database):
    """Return how many deadlocks the server has seen; SQLite has none to see."""
    if database.engine.dialect.name == "sqlite":
        return 0
    query = sa.text("SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'")
    return int(database.read(lambda c: c.execute(query).one()[1]))


def test_the_last_slots_go_to_as_many_as_fit(url, cloud):
    orders = [an_order(f"req-{n}", a_claim(a_uuid(f"i{n}"), 1)) for n in range(7)]
    found = together(url, *(claiming(order) for order in orders))
    assert sorted(type(each).__name__ for each in found) == ["ClaimLost"] * 3 + ["ClaimResult"] * 4
    assert all(each.nodes == {1} for each in found if isinstance(each, ClaimLost))
    assert_sums_are_right(cloud)


def test_requests_for_several_are_served_whole_or_not_at_all(url, cloud):
    """Six want two slots on each of two nodes that have four each; their nodes cross."""
    orders = []
    for n in range(6):
        places = (1, 1, 2, 2) if n % 2 else (2, 2, 1, 1)
        wanted = [a_claim(a_uuid(f"i{n} {k}"), node) for k, node in enumerate(places)]
        orders.append(an_order(f"req-{n}", *wanted))
    before = deadlocks(cloud)
    found = together(url, *(claiming(order) for order in orders))
    assert sorted(type(each).__name__ for each in found) == ["ClaimLost"] * 4 + ["ClaimResult"] * 2
    assert_sums_are_right(cloud)
    assert deadlocks(cloud) == before


@pytest.mark.parametrize("same", [True, False])
def test_an_instance_that_two_claim_for_at_once_is_claimed_for_once(url, cloud, same):
    for attempt in range(5):
        uuid = a_uuid(f"instance {attempt}")
        names = [f"req-{attempt}" + ("" if same else f" {number}") for number in (1, 2)]
        orders = [
            an_order(name, a_claim(uuid, node)) for name, node in zip(names, (1, 2), strict=True)
        ]
        found = together(url, *(until_claimed(order) for order in orders))
        rows = cloud.read(lambda c: c.execute(sa.select(table)).all())
        (row,) = rows
        assert row.answer in [each for done in found for each in done.answers]
        if same:
            assert found[0].answers == found[1].answers
            assert sorted(each.repeated for each in found) == [False, True]
        assert_sums_are_right(cloud)
        cloud.write(lambda c, uuid=uuid: claims.release(c, [uuid]))


def test_groups_hold_whoever_claims(url, cloud):
    """Two groups, four members each, all nodes are tried by all in orders that cross."""
    works, members = [], {}
    for group in ("g1", "g2"):
        ensure(cloud, [group])
        members[group] = [a_uuid(f"{group} {number}") for number in range(4)]
        for number, uuid in enumerate(members[group]):
            works.append(anywhere(uuid, GroupRule(group, members[group], 1), number, group))
    before = deadlocks(cloud)
    found = together(url, *works)
    assert Counter(found) == {"placed": 6, "refused": 2}
    rows = cloud.read(lambda c: c.execute(sa.select(table)).all())
    places = Counter((row.group_uuid, row.host) for row in rows)
    assert places == {(group, f"h{node}"): 1 for group in members for node in NODES}
    assert deadlocks(cloud) == before


def anywhere(uuid, rule, number, group):
    """Claim on the first node that has a place for a member of a group."""
    first = number if group == "g1" else -number

    def work(database):
        for turn in NODES:
            node = 1 + (first + turn) % 3
            try:
                claiming(an_order(f"req {uuid}", a_claim(uuid, node), group=rule))(database)
            except ClaimLost:
                continue
            return "placed"
        return "refused"

    return work


TIMES = 12


def test_claims_releases_and_audits_beside_each_other(url, cloud):
    """Nodes in opposite orders, and none waits for one that waits for it."""
    before = deadlocks(cloud)

    def claimer(number):
        uuids = [a_uuid(f"{number} {k}") for k in range(3)]
        places = NODES if number % 2 else NODES[::-1]

        def work(database):
            for turn in range(TIMES):
                # In turns new ones, and others in the place of those.
                wanted = [a_claim(*each) for each in zip(uuids, places, strict=True)]
                until_claimed(an_order(f"req {number} {turn}", *wanted))(database)
                if turn % 3 == 2:
                    some = uuids if turn % 2 else uuids[:1]
                    database.write(lambda c, some=some: claims.release(c, some))

        return work

    def auditor(database):
        for _ in range(TIMES):
            auditing(database, ())

    found = together(url, *map(claimer, range(4)), auditor, auditor)
    assert found == [None] * 6
    assert_sums_are_right(cloud)
    assert deadlocks(cloud) == before
