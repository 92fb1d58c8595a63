# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What differs is written, and exactly that is published."""

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from compute_agent.audit import transaction
from compute_agent.audit.row_builder import PollResult, Settings, build_rows
from compute_agent.audit.transaction import AuditResult, Batch
from compute_agent.virt.driver import Guest, NodeName, Size
from inventory import compute_nodes, instances
from inventory.engine import Database
from tests.fixtures.agent import a_guest, some_facts
from tests.records import manage

HOUR = timedelta(hours=1)
NONE = timedelta(0)
ONE, TWO = NodeName("h1", "n1"), NodeName("h1", "n2")
G = [a_guest(number) for number in range(4)]


def found(name: NodeName, *guests: Guest, reserved: int = 0, **facts: Any) -> PollResult:
    settings = Settings("192.0.2.1", Size(memory_mb=reserved))
    return PollResult(name, f"uuid of {name.node}", 7, settings, some_facts(**facts), list(guests))


def marks(database: Database) -> dict[NodeName, compute_nodes.RowVersion]:
    read = database.read(lambda connection: compute_nodes.row_versions(connection, ["h1", "h2"]))
    return {NodeName(*place): mark for place, mark in read.items()}


def store_batch(
    database: Database, *findings: PollResult, refresh_after: timedelta = HOUR
) -> AuditResult:
    return write(database, findings, marks(database), refresh_after)


def write(
    database: Database,
    findings: Sequence[PollResult],
    marks: dict[NodeName, compute_nodes.RowVersion],
    refresh_after: timedelta = HOUR,
) -> AuditResult:
    """Store findings on the ground of marks of an earlier moment."""
    batch = Batch(findings, marks, time.monotonic(), refresh_after)
    return database.write(lambda connection: transaction.store(connection, batch))


def published(stored: AuditResult) -> tuple[dict[str, int], dict[str, bool]]:
    """Return {node: generation} and {uuid: whether it is dead} of what is to be published."""
    return (
        {row.hypervisor_hostname: row.generation for row in stored.nodes},
        {row.uuid: bool(row.deleted) for row in stored.instances},
    )


def uuids(rows: Sequence[sa.Row[Any]]) -> set[str]:
    return {row.uuid for row in rows}


def test_new_nodes_are_written_with_their_guests(database: Database) -> None:
    stored = store_batch(database, found(ONE, G[1]), found(TWO))
    assert published(stored) == ({"n1": 1, "n2": 1}, {G[1].uuid: False})
    assert stored.generations == {ONE: 1, TWO: 1}
    assert uuids(database.read(instances.all_live)) == {G[1].uuid}


def test_what_is_there_already_is_left_alone(database: Database) -> None:
    store_batch(database, found(ONE, G[1]), found(TWO))
    stored = store_batch(database, found(ONE, G[1]), found(TWO))
    assert published(stored) == ({}, {})
    assert stored.generations == {ONE: 1, TWO: 1}


def test_only_the_row_that_differs_is_written(database: Database) -> None:
    store_batch(database, found(ONE), found(TWO))
    stored = store_batch(database, found(ONE), found(TWO, reserved=64))
    assert published(stored) == ({"n2": 2}, {})
    assert stored.generations == {ONE: 1, TWO: 2}


def test_a_change_of_a_guest_counts_as_one_of_its_node(database: Database) -> None:
    store_batch(database, found(ONE, G[1]), found(TWO, G[2]))
    # Neither figures nor stats of the node depend on it.
    stored = store_batch(database, found(ONE, a_guest(1, name="renamed")), found(TWO, G[2]))
    assert published(stored) == ({"n1": 2}, {G[1].uuid: False})
    assert stored.generations == {ONE: 2, TWO: 1}


def test_guests_that_come_and_go_are_published(database: Database) -> None:
    store_batch(database, found(ONE, G[1], G[2]))
    stored = store_batch(database, found(ONE, G[2], G[3]))
    assert published(stored) == ({"n1": 2}, {G[1].uuid: True, G[3].uuid: False})


def test_rows_that_are_old_are_written_as_they_are(database: Database) -> None:
    store_batch(database, found(ONE, G[1]), found(TWO))
    stored = store_batch(database, found(ONE, G[1]), found(TWO, reserved=64), refresh_after=NONE)
    assert published(stored) == ({"n1": 2, "n2": 2}, {})
    assert stored.generations == {ONE: 2, TWO: 2}


def test_managed_rows_are_not_published(database: Database) -> None:
    manage(database, G[1].uuid, "h1", "n1")
    stored = store_batch(database, found(ONE, G[1], G[2]))
    assert published(stored)[1] == {G[2].uuid: False}


def test_a_row_that_somebody_deleted_meanwhile_is_back(database: Database) -> None:
    store_batch(database, found(ONE))
    known = marks(database)
    database.write(lambda each: compute_nodes.delete(each, "h1", ["n1"]))
    stored = write(database, [found(ONE)], known, NONE)
    assert published(stored) == ({"n1": 3}, {})
    assert len(database.read(compute_nodes.all_live)) == 1


def test_a_row_that_somebody_made_meanwhile_is_as_good_as_one_that_was_known(
    database: Database,
) -> None:
    # The very row that is wanted, though not the guest's.
    row = build_rows(found(ONE, G[1])).row
    database.write(lambda each: compute_nodes.save(each, [row]))
    stored = write(database, [found(ONE, G[1])], {})
    assert published(stored) == ({"n1": 2}, {G[1].uuid: False})
    assert stored.generations == {ONE: 2}
    # Nothing was written of which the generation would be known for sure.
    assert write(database, [found(ONE, G[1])], {}).generations == {}


def test_a_node_is_deleted_with_what_was_seen_on_it(database: Database) -> None:
    store_batch(database, found(ONE, G[1]), found(TWO, G[2]))
    manage(database, G[3].uuid, "h1", "n1")
    stored = database.write(lambda each: transaction.delete(each, [ONE]))
    assert published(stored) == ({"n1": 2}, {G[1].uuid: True})
    assert [row.hypervisor_hostname for row in database.read(compute_nodes.all_live)] == ["n2"]
    assert uuids(database.read(instances.all_live)) == {G[2].uuid, G[3].uuid}


@pytest.mark.parametrize("names", [[ONE], [ONE, NodeName("h2", "never there")]])
def test_what_is_not_there_cannot_be_deleted(database: Database, names: list[NodeName]) -> None:
    store_batch(database, found(ONE))
    database.write(lambda each: compute_nodes.delete(each, "h1", ["n1"]))
    assert published(database.write(lambda each: transaction.delete(each, names))) == ({}, {})
