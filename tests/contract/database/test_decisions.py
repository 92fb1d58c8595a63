# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.decisions."""

import os
import time
from datetime import UTC, datetime, timedelta
from threading import Thread

import pytest
import sqlalchemy as sa

from inventory import decisions
from inventory.decisions import PIECE, DecisionRow, SnapshotBatch
from inventory.rows import CHUNK
from inventory.tables import decision_inputs, decision_instances
from inventory.tables import decisions as table
from tests.databases import a_uuid, open_at

WEEK = 7 * 24 * 3600
MANY = 10_000


def a_decision(number, log="p1-1", ago=0.0, **changes):
    """Return a decision about one instance, made on the snapshot of this number in a log."""
    ordinary = {
        "scheduler": "s1",
        "outcome": "placed",
        "milliseconds": 1.5,
        "conflicts": 0,
        "document": b"what was decided",
        "request_id": f"req-{log}-{number}",
        "project_id": "tenant",
        "instance_uuids": [a_uuid(f"{log} {number}")],
        "hosts": ["h1"],
    }
    return DecisionRow(log, number, time.monotonic() - ago, **ordinary | changes)


def keep(database, *decided, batches=None):
    """Add decisions, and with each the snapshot that it was made on unless others are given."""
    some = batches or [
        SnapshotBatch(each.snapshot_log, each.snapshot_number, b"snapshots") for each in decided
    ]
    database.write(lambda c: decisions.add(c, decided, some))


def find(database, text):
    return database.read(lambda c: decisions.find(c, text))


def in_order(database, since_ago):
    """Return request ids and documents of the last so many seconds, as in_order yields them."""

    def work(connection):
        since = datetime.now(UTC).replace(tzinfo=None) - timedelta(seconds=since_ago)
        return [
            (row.request_id, document) for row, document in decisions.in_order(connection, since)
        ]

    return database.read(work)


def logs(database):
    query = sa.select(decision_inputs.c.snapshot_log).distinct()
    return set(database.read(lambda c: c.scalars(query).all()))


def count(database, one):
    return database.read(lambda c: c.scalar(sa.select(sa.func.count()).select_from(one)))


def pruned(database, max_age=WEEK, max_number=MANY):
    """Prune until there is nothing to prune; return how many steps that took."""
    steps = 0
    while database.write(lambda c: decisions.prune(c, max_age, max_number)):
        steps += 1
    return steps


def aged(database, seconds):
    """Date all snapshots back by this time."""

    def work(connection):
        c = decision_inputs.c
        query = sa.select(c.snapshot_log, sa.func.max(c.written_at)).group_by(c.snapshot_log)
        for log, at in connection.execute(query).all():
            of_log = sa.update(decision_inputs).where(c.snapshot_log == log)
            connection.execute(of_log.values(written_at=at - seconds))

    database.write(work)


def test_a_decision_is_found_by_its_number_request_and_instances(database):
    uuids = [a_uuid("one"), None, a_uuid("two"), a_uuid("two").upper(), "x" * 37]
    # Names that MariaDB takes for the same.
    uuids += ["e1", "\u00e91", "\U0001f600", "\U0001f601"]
    kept = a_decision(0, instance_uuids=uuids, hosts=["h1", "h2", "h1"], conflicts=2)
    keep(database, kept, a_decision(1))
    (row,) = find(database, a_uuid("one"))
    assert row._asdict() | {"id": 0, "decided_at": None} == {
        "id": 0,
        "request_id": "req-p1-1-0",
        "project_id": "tenant",
        "decided_at": None,
        "scheduler": "s1",
        "outcome": "placed",
        "instances": 9,
        "hosts": "h1, h2",
        "milliseconds": 1.5,
        "conflicts": 2,
        "snapshot_log": "p1-1",
        "snapshot_number": 0,
    }
    for text in (a_uuid("two"), "req-p1-1-0", str(row.id)):
        assert find(database, text) == [row]
    for text in ("req-2", a_uuid("three"), "0", "9" * 30, "", "²"):
        assert find(database, text) == []
    document = database.read(lambda c: decisions.document(c, row.id))
    assert document == b"what was decided"
    assert database.read(lambda c: decisions.document(c, 0)) is None


def test_decisions_of_a_batch_are_beside_its_snapshots_and_go_with_them(database):
    large = bytes(range(256)) * (2 * PIECE // 256 + 1)
    batches = [SnapshotBatch("p1-1", 0, b"0", large), SnapshotBatch("p1-1", 5, b"5", b"late")]
    keep(database, a_decision(0), a_decision(5), batches=batches)
    assert database.read(lambda c: decisions.batch(c, "p1-1", 0)) == large
    assert database.read(lambda c: decisions.batch(c, "p1-1", 5)) == b"late"
    assert database.read(lambda c: decisions.batch(c, "p1-1", 1)) is None
    assert database.read(lambda c: decisions.snapshots(c, "p1-1", 7)) == [b"0", b"5"]
    aged(database, timedelta(seconds=decisions.UNUSED_AGE + 60))
    pruned(database, max_number=1)
    assert database.read(lambda c: decisions.batch(c, "p1-1", 0)) == large
    pruned(database, max_number=0)
    assert count(database, decision_inputs) == 0


def test_decisions_of_an_instance_come_the_newest_first(database):
    uuids = [a_uuid("again")]
    keep(
        database,
        *(
            a_decision(each, ago=ago, instance_uuids=uuids)
            for each, ago in enumerate((30.0, 10.0, 20.0))
        ),
    )
    assert [row.snapshot_number for row in find(database, uuids[0])] == [1, 2, 0]
    newest = database.read(lambda c: decisions.listed(c, limit=2))
    assert [row.snapshot_number for row in newest] == [1, 2]


def test_the_time_of_a_decision_is_the_one_of_the_database_when_it_was_made(database):
    keep(database, a_decision(0, ago=3600.0))
    (row,) = database.read(decisions.listed)
    now = database.read(lambda c: c.scalar(sa.select(decisions.utc_moment())))
    assert 3600.0 <= (now - row.decided_at).total_seconds() < 3630.0


def test_a_list_may_be_of_an_outcome_or_a_project(database):
    keep(
        database,
        a_decision(0),
        a_decision(1, outcome="refused", hosts=()),
        a_decision(2, project_id="other"),
    )
    listed = {
        name: [
            row.snapshot_number
            for row in database.read(lambda c, asked=asked: decisions.listed(c, **asked))
        ]
        for name, asked in {
            "refused": {"outcome": "refused"},
            "other": {"project_id": "other"},
            "neither": {"outcome": "refused", "project_id": "other"},
        }.items()
    }
    assert listed == {"refused": [1], "other": [2], "neither": []}
    (refused,) = database.read(lambda c: decisions.listed(c, outcome="refused"))
    assert refused.hosts is None


def test_what_is_too_long_is_cut(database):
    hosts = [f"compute-{each:04}.example.org" for each in range(100)]
    keep(database, a_decision(0, request_id="r" * 300, project_id=None, hosts=hosts))
    (row,) = database.read(decisions.listed)
    assert row.request_id == "r" * 255
    assert row.project_id is None
    *shown, more = row.hosts.split(", ")
    assert more == f"... ({100 - len(shown)} more)"
    assert shown == hosts[: len(shown)]
    assert 230 < len(row.hosts) <= 255


def test_what_was_added_already_is_not_added_again(database):
    decided = [a_decision(3), a_decision(5)]
    batches = [SnapshotBatch("p1-1", 2, b"2 to 5"), SnapshotBatch("p1-2", 0, b"0")]
    for _ in range(2):
        keep(database, *decided, batches=batches)
    assert len(database.read(decisions.listed)) == 2
    assert count(database, decision_inputs) == 2
    assert count(database, decision_instances) == 2


def test_snapshots_may_be_added_without_decisions(database):
    keep(database, batches=[SnapshotBatch("p1-1", 0, b"0")])
    assert database.read(decisions.listed) == []
    assert database.read(lambda c: decisions.snapshots(c, "p1-1", 0)) == [b"0"]


def test_snapshots_come_back_whole_and_no_later_ones(database):
    large = os.urandom(3 * PIECE + 7)
    for first, data in ((9, b"9"), (0, large), (4, b"4 and 7"), (5, b"5 and 6")):
        keep(database, batches=[SnapshotBatch("p1-1", first, data)])
    keep(database, batches=[SnapshotBatch("p1-2", 0, b"of another log")])
    found = database.read(lambda c: decisions.snapshots(c, "p1-1", 7))
    assert sorted(found) == sorted([large, b"4 and 7", b"5 and 6"])
    assert database.read(lambda c: decisions.snapshots(c, "p2-1", 7)) == []


def test_a_request_of_thousands_of_instances(database):
    uuids = [a_uuid(str(each)) for each in range(5_000)]
    keep(database, a_decision(0, instance_uuids=uuids, document=os.urandom(3_900_000)))
    (row,) = find(database, uuids[-1])
    assert row.instances == 5_000


def test_old_decisions_go_and_others_stay(database):
    keep(database, a_decision(0, ago=WEEK + 60), a_decision(1, ago=WEEK - 60))
    pruned(database)
    assert [row.snapshot_number for row in database.read(decisions.listed)] == [1]
    assert find(database, a_uuid("p1-1 0")) == []
    assert count(database, decision_instances) == 1


def test_of_many_decisions_the_newest_stay(database):
    number = 2 * CHUNK + 30
    keep(database, *(a_decision(each, ago=60.0 + number - each) for each in range(number)))
    assert pruned(database, max_number=20) == 3
    left = database.read(lambda c: decisions.listed(c, limit=100))
    assert [row.snapshot_number for row in left] == [*range(number - 1, number - 21, -1)]
    assert count(database, decision_instances) == 20
    assert pruned(database, max_number=20) == 0


def test_a_log_goes_when_no_decision_needs_it(database):
    keep(database, a_decision(0, "old-1", ago=WEEK + 60), a_decision(0, "p1-1"))
    keep(
        database,
        batches=[SnapshotBatch("old-1", first, os.urandom(PIECE + 1)) for first in range(1, 9)],
    )
    pruned(database)
    # Somebody may be about to add a decision that needs what was added just now.
    assert logs(database) == {"old-1", "p1-1"}
    aged(database, decisions.timedelta(seconds=decisions.UNUSED_AGE + 1))
    pruned(database)
    assert logs(database) == {"p1-1"}


def test_a_long_log_goes_in_steps(database):
    keep(database, batches=[SnapshotBatch("p1-1", first, b"x") for first in range(250)])
    aged(database, decisions.timedelta(seconds=decisions.UNUSED_AGE + 1))
    assert pruned(database) == 3
    assert logs(database) == set()


def test_schedulers_add_and_prune_at_the_same_time(url, database):
    """Nobody fails, and what is left at the end is what should be."""
    failures = []

    def scheduler(name):
        mine = open_at(url)
        try:
            for first in range(0, 200, 20):
                keep(mine, *(a_decision(each, name, ago=1.0) for each in range(first, first + 20)))
                while mine.write(lambda c: decisions.prune(c, WEEK, 30)):
                    pass
        except Exception as error:
            failures.append(error)
        finally:
            mine.close()

    threads = [Thread(target=scheduler, args=(f"p{each}-1",)) for each in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failures == []
    pruned(database, max_number=30)
    assert count(database, table) == count(database, decision_instances) == 30


def test_numbers_are_never_given_twice(database):
    keep(database, a_decision(0, ago=WEEK + 60))
    (row,) = database.read(decisions.listed)
    pruned(database)
    keep(database, a_decision(1))
    (other,) = database.read(decisions.listed)
    assert other.id > row.id


def test_decisions_come_back_in_the_order_in_which_they_were_made(database):
    keep(database, a_decision(0, "p2-1", ago=50), a_decision(0, "p1-10", ago=20))
    # A process knows the order of its own; the clock of the database may say otherwise.
    keep(database, a_decision(1, "p1-9", ago=40), a_decision(0, "p1-9", ago=35))
    keep(database, a_decision(1, "p2-1", ago=10), a_decision(9, "p1-8", ago=WEEK))
    found = in_order(database, since_ago=3600)
    in_turn = ["p2-1-0", "p1-9-0", "p1-9-1", "p1-10-0", "p2-1-1"]
    assert found == [(f"req-{each}", b"what was decided") for each in in_turn]
    assert in_order(database, since_ago=0) == []


def test_decisions_that_are_known_are_left_out(database):
    keep(database, *(a_decision(each, ago=1.0) for each in range(3)))
    first = database.read(lambda c: c.scalar(sa.select(sa.func.min(table.c.id))))
    since = datetime.now(UTC).replace(tzinfo=None) - timedelta(hours=1)
    found = database.read(lambda c: [*decisions.in_order(c, since, {first})])
    assert [row.request_id for row, _ in found] == ["req-p1-1-1", "req-p1-1-2"]


def test_many_decisions_come_back_in_order(database):
    many = CHUNK + 3
    keep(database, *(a_decision(each, ago=1.0) for each in reversed(range(many))), batches=[])
    found = in_order(database, since_ago=3600)
    assert [name for name, _ in found] == [f"req-p1-1-{each}" for each in range(many)]


@pytest.mark.parametrize("text", ["p1-1", "\x00", "%", "' or 1=1"])
def test_what_is_no_name_of_anything_finds_nothing(database, text):
    keep(database, a_decision(0))
    assert find(database, text) == []
