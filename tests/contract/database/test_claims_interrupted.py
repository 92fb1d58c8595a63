# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of claims when the server, the network or strangers interfere. MariaDB only."""

from contextlib import contextmanager
from threading import Event, Thread

import pymysql
import pytest
import sqlalchemy as sa

from compute_agent.audit.tracker import ResourceTracker
from compute_agent.virt.fake import FakeDriver
from inventory import compute_nodes
from inventory.claims import claims, existing
from inventory.claims.group_locks import ensure
from inventory.claims.types import ClaimLost, GroupRule
from inventory.database_errors import TransactionLost
from inventory.tables import allocations as table
from inventory.tables import compute_nodes as nodes
from scheduler.cached_thread_pool import CachedThreadPool
from tests.claiming_loop import ClaimingLoop
from tests.contract.database.test_claims_together import (
    a_claim,
    an_order,
    assert_sums_are_right,
    auditing,
    claiming,
    deadlocks,
    together,
    until_claimed,
)
from tests.databases import a_uuid, open_at
from tests.fixtures import agent
from tests.fixtures.daemons.process import PATIENCE, wait_until

U1, U2 = a_uuid("one"), a_uuid("two")
# In the words of Galera, of MariaDB's older releases, and of Percona's.
CONFLICTS = (
    "Deadlock found when trying to get lock; try restarting transaction",
    "Deadlock: wsrep aborted transaction",
    "WSREP detected deadlock/conflict and aborted the transaction. Try restarting the transaction",
)


pytestmark = pytest.mark.parametrize(
    "url", [pytest.param("mariadb", marks=pytest.mark.daemons)], indirect=True
)


@contextmanager
def beside(url, work):
    """Run a work in a thread; yield a list to which it adds what it returned or raised."""
    found = []

    def run():
        own = open_at(url)
        try:
            found.append(work(own))
        except Exception as error:
            found.append(error)
        own.close()

    thread = Thread(target=run)
    thread.start()
    try:
        yield found
    finally:
        thread.join()


def wait_for_a_lock(database):
    """Wait until somebody waits for a lock."""
    query = sa.text("SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'")
    assert wait_until(lambda: int(database.read(lambda c: c.execute(query).one()[1])))


def all_rows(database):
    return database.read(lambda c: c.execute(sa.select(table)).all())


def fail_commits(database, monkeypatch, fail, times):
    """Let fail(connection, commit) take the place of the first commits; return their list."""
    commit, done = database.engine.dialect.do_commit, []

    def do_commit(connection):
        done.append(1)
        if len(done) <= times:
            fail(connection, commit)
        else:
            commit(connection)

    monkeypatch.setattr(database.engine.dialect, "do_commit", do_commit)
    return done


def test_a_claim_whose_answer_was_cut_off_is_not_made_twice(url, cloud, monkeypatch):
    killer = open_at(url)

    def cut(connection, commit):
        commit(connection)
        number = connection.thread_id()
        killer.write(lambda c: c.execute(sa.text(f"KILL {number}")))
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")

    done = fail_commits(cloud, monkeypatch, cut, times=1)
    order = an_order("req-1", a_claim(U1, 1), a_claim(U2, 2))
    claimed = claiming(order)(cloud)
    assert (len(done), claimed.repeated) == (2, True)
    assert list(claimed.answers) == [f"{U1} on 1", f"{U2} on 2"]
    assert len(all_rows(cloud)) == 2
    assert_sums_are_right(cloud)
    killer.close()


@pytest.mark.parametrize("words", CONFLICTS)
def test_a_claim_that_a_cluster_takes_back_at_its_commit_is_made_again(cloud, monkeypatch, words):
    def refuse(connection, commit):
        connection.rollback()
        raise pymysql.err.OperationalError(1213, words)

    done = fail_commits(cloud, monkeypatch, refuse, times=2)
    claimed = claiming(an_order("req-1", a_claim(U1, 1)))(cloud)
    assert (len(done), claimed.repeated) == (3, False)
    assert len(all_rows(cloud)) == 1
    assert_sums_are_right(cloud)


def test_a_cluster_that_takes_back_everything_is_not_available(cloud, monkeypatch):
    def refuse(connection, commit):
        connection.rollback()
        raise pymysql.err.OperationalError(1213, CONFLICTS[0])

    done = fail_commits(cloud, monkeypatch, refuse, times=10_000)
    monkeypatch.setattr("inventory.engine._CONFLICT_TIMEOUT", 0.5)
    with pytest.raises(TransactionLost, match="other programs wrote the same rows"):
        claiming(an_order("req-1", a_claim(U1, 1)))(cloud)
    assert len(done) >= 2
    monkeypatch.undo()
    assert all_rows(cloud) == []
    assert_sums_are_right(cloud)


def test_a_deadlock_with_a_stranger_costs_a_second_attempt(url, cloud):
    holding, turned = Event(), Event()
    attempts = []

    def stranger(database):
        def work(connection):
            # More than a claim writes: the server ends who has written less.
            for number in range(50):
                row = {"name": f"stranger {number}", "revision": 1}
                connection.execute(sa.text("INSERT INTO revisions VALUES (:name, :revision)"), row)
            lock(connection, 2)
            holding.set()
            assert turned.wait(PATIENCE)
            lock(connection, 1)

        database.write(work)

    def lock(connection, node):
        connection.execute(sa.update(nodes).where(nodes.c.id == node).values(running_vms=0))

    def claimer(database):
        def work(connection):
            attempts.append(1)
            return claims.claim(connection, an_order("req-1", a_claim(U1, 1), a_claim(U2, 2)))

        assert holding.wait(PATIENCE)
        return database.write(work)

    before = deadlocks(cloud)
    with beside(url, stranger) as one, beside(url, claimer) as other:
        wait_for_a_lock(cloud)
        turned.set()
    assert (one, other[0].repeated, len(attempts)) == ([None], False, 2)
    assert deadlocks(cloud) == before + 1
    assert_sums_are_right(cloud)


def test_who_claims_for_a_group_waits_for_who_does(url, cloud):
    """What the first one claims, the second one sees, though their nodes are others."""
    ensure(cloud, ["g1"])
    rule = GroupRule("g1", (U1, U2), most=None)
    first = an_order("req-1", a_claim(U1, 1), group=rule)
    second = an_order("req-2", a_claim(U2, 2), group=rule)

    def work(connection):
        claims.claim(connection, first)
        stack = beside(url, claiming(second))
        found = stack.__enter__()
        wait_for_a_lock(cloud)
        return stack, found

    stack, found = cloud.write(work)
    stack.__exit__(None, None, None)
    (lost,) = found
    assert isinstance(lost, ClaimLost)
    assert lost.nodes == {2}
    assert [row.instance_uuid for row in all_rows(cloud)] == [U1]


def test_a_claim_is_not_replaced_while_an_audit_confirms_it(url, cloud):
    """It was pending when it was looked up, and a guest when its node was free to be changed."""
    claiming(an_order("req-1", a_claim(U1, 1)))(cloud)
    again = an_order("req-2", a_claim(U1, 1))

    def work(connection):
        compute_nodes.lock(connection, [1])
        stack = beside(url, claiming(again))
        found = stack.__enter__()
        wait_for_a_lock(cloud)
        rows, now = existing.on_nodes(connection, [1])
        settlement = existing.reconcile(rows, {U1: (4, 4096)}, now)
        existing.apply_reconciliation(connection, settlement)
        return stack, found

    stack, found = cloud.write(work)
    stack.__exit__(None, None, None)
    (lost,) = found
    assert isinstance(lost, ClaimLost)
    (row,) = all_rows(cloud)
    assert (row.state, row.request_id) == ("confirmed", "req-1")
    # The guest and its new claim, both on the node.
    claiming(again)(cloud)
    assert [row.state for row in all_rows(cloud)] == ["confirmed", "pending"]


def test_an_audit_counts_what_was_claimed_while_it_waited(url, cloud, tmp_path):
    conf = agent.options(tmp_path, DEFAULT={"compute_driver": "fake", "reserved_host_memory_mb": 0})
    driver = FakeDriver(conf)
    ResourceTracker(conf, cloud, driver).audit({"alpha": 1})
    # News, which there must be for an audit to write anything.
    driver.add_guest("alpha", agent.a_guest())
    before = cloud.read(compute_nodes.all_live)[-1]

    def work(connection):
        claims.claim(connection, an_order("req-1", a_claim(U1, before.id, host="alpha")))
        stack = beside(url, lambda own: ResourceTracker(conf, own, driver).audit({"alpha": 1}))
        stack.__enter__()
        wait_for_a_lock(cloud)
        return stack

    cloud.write(work).__exit__(None, None, None)
    after = cloud.read(compute_nodes.all_live)[-1]
    assert (after.claims, after.vcpus_used, after.disk_mb_used) == (1, 4 + 1, 1500 + 10240)


def test_alternates_do_not_upset_the_order_of_nodes(url, cloud):
    """What is given back of a node without room is given back before the next node is locked."""
    claiming(an_order("req-1", a_claim(U1, 3), a_claim(U1, 1, alternate=True)))(cloud)
    wanted = a_claim(U1, 2), a_claim(U1, 1, alternate=True, vcpus=99)

    def work(connection):
        compute_nodes.lock(connection, [1])
        stack = beside(url, claiming(an_order("req-2", *wanted)))
        stack.__enter__()
        wait_for_a_lock(cloud)
        # Had it locked one of these before, we would now wait for each other.
        compute_nodes.lock(connection, [2, 3])
        return stack

    before = deadlocks(cloud)
    cloud.write(work).__exit__(None, None, None)
    assert deadlocks(cloud) == before
    assert [(row.compute_node_id, row.state) for row in all_rows(cloud)] == [(2, "pending")]
    assert_sums_are_right(cloud)


def test_a_server_that_refuses_stale_snapshots_is_no_hindrance(mariadb, url, cloud):
    mariadb.execute("SET GLOBAL innodb_snapshot_isolation = ON")
    try:
        strict = open_at(url)
        switched = sa.text("SELECT @@session.innodb_snapshot_isolation")
        assert strict.read(lambda c: c.scalar(switched)) == 1
        strict.close()
        orders = [
            an_order(f"req {n}", a_claim(a_uuid(f"{n}"), 1), a_claim(a_uuid(f"{n} b"), 2))
            for n in range(4)
        ]
        auditor = [lambda own: auditing(own, ())] * 2
        found = together(url, *map(until_claimed, orders), *auditor)
        assert [type(each).__name__ for each in found] == ["ClaimResult"] * 4 + ["NoneType"] * 2
        assert_sums_are_right(cloud)
    finally:
        mariadb.execute("SET GLOBAL innodb_snapshot_isolation = OFF")


def test_a_node_that_a_stranger_has_locked_holds_up_only_who_wants_it(cloud):
    """Of one scheduler, whose rounds come one at a time."""
    claimer, threads = ClaimingLoop(cloud), CachedThreadPool()
    with cloud.engine.begin() as stranger:
        stranger.execute(sa.select(nodes.c.id).where(nodes.c.id == 1).with_for_update())
        first = threads.run(lambda: claimer.claim(an_order("req-1", a_claim(U1, 1))))
        wait_for_a_lock(cloud)
        second = threads.run(lambda: claimer.claim(an_order("req-2", a_claim(U2, 2))))
        assert second.result(PATIENCE).nodes == {2}
        assert not first.done()
    assert first.result(PATIENCE).nodes == {1}
