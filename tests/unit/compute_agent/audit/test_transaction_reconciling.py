# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""An audit reconciles the claims on its nodes: by what came, what left, and what did not come."""

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from compute_agent.audit import transaction
from compute_agent.audit.row_builder import PollResult, Settings
from compute_agent.audit.tracker import ResourceTracker
from compute_agent.audit.transaction import AuditResult, Batch
from compute_agent.virt.driver import Guest, NodeName
from compute_agent.virt.fake import FakeDriver
from inventory import compute_nodes
from inventory.claims import existing
from inventory.engine import Database
from inventory.objects.node_json import guest_topology_to_json, pci_pools_to_json
from inventory.objects.numa import InstanceNUMACell, InstanceNUMATopology
from inventory.objects.pci_and_network import PciDevicePool
from tests.claimed import claim, claim_and_age, claimed, let_pass, release
from tests.databases import execute
from tests.fixtures.agent import a_guest, nodes, some_facts
from tests.records import manage, migrate

SERVICE = {"alpha": 7}
G = [a_guest(number, vcpus=2, memory_mb=2048, root_gb=5) for number in range(4)]
U = [guest.uuid for guest in G]
# What a claim takes that has the size of claim(), and reserves.
CLAIMED, EMPTY = (2, 512 + 2048, 5000, 1), (0, 512, 0, 0)
SEEN = (2, 512 + 2048, 5120, 0)


def used(database: Database) -> tuple[int, ...]:
    """Return (vcpus, memory, exact disk, claims) of the only node."""
    (row,) = nodes(database)
    return row.vcpus_used, row.memory_mb_used, row.disk_mb_used, row.claims


def generation(database: Database) -> int:
    (row,) = nodes(database)
    return int(row.generation)


class Cloud:
    """One node, its agent and those who claim."""

    def __init__(self, conf: cfg.ConfigOpts, database: Database) -> None:
        self.database = database
        self.driver = FakeDriver(conf)
        self.published: list[AuditResult] = []
        self.tracker = ResourceTracker(conf, database, self.driver, publish=self.published.append)
        self.audit()

    def audit(self) -> None:
        self.tracker.audit(SERVICE)

    def come(self, guest: Guest) -> None:
        self.driver.add_guest("alpha", guest)
        self.audit()

    def leave(self, guest: Guest) -> None:
        self.driver.remove_guest("alpha", guest.uuid)
        self.audit()

    def claim(self, uuid: str, **changes: Any) -> None:
        claim_and_age(self.database, uuid, nodes(self.database)[0], **changes)


@pytest.fixture
def cloud(conf: cfg.ConfigOpts, database: Database) -> Cloud:
    return Cloud(conf, database)


def test_what_was_claimed_counts_until_it_is_seen(cloud: Cloud, database: Database) -> None:
    cloud.claim(U[1])
    cloud.audit()
    assert (used(database), claimed(database)) == (CLAIMED, {U[1]: "pending"})
    cloud.come(G[1])
    assert (used(database), claimed(database)) == (SEEN, {U[1]: "confirmed"})
    cloud.leave(G[1])
    assert (used(database), claimed(database)) == (EMPTY, {})


def test_an_instance_that_others_manage_is_there_without_a_guest(
    cloud: Cloud, database: Database
) -> None:
    cloud.claim(U[1])
    manage(database, U[1].upper(), "alpha", "alpha", vcpus=2)
    cloud.audit()
    assert (used(database)[3], claimed(database)) == (0, {U[1]: "confirmed"})


@pytest.mark.parametrize("document", ["numa", "pci"])
def test_cells_and_devices_are_held_until_the_guest_has_them(
    cloud: Cloud, database: Database, document: str
) -> None:
    documents = {"numa": '{"cells": []}', "pci": "[]"}
    cloud.claim(U[1], documents={}, **{document: documents[document]})
    manage(database, U[1], "alpha", "alpha", vcpus=2, memory_mb=2048, root_gb=5)
    cloud.audit()
    # Not what the row says besides.
    assert (used(database), claimed(database)) == (CLAIMED, {U[1]: "pending"})
    cloud.come(G[1])
    assert (used(database), claimed(database)) == (SEEN, {U[1]: "confirmed"})


def test_what_did_not_come_in_time_is_given_back_although_nothing_else_is_new(
    cloud: Cloud, database: Database
) -> None:
    cloud.claim(U[1])
    cloud.audit()
    let_pass(database, 800)
    before = generation(database)
    cloud.audit()
    assert (used(database), generation(database)) == (CLAIMED, before)
    let_pass(database, 100)
    cloud.audit()
    assert (used(database), claimed(database)) == (EMPTY, {})
    assert generation(database) == before + 1


@pytest.mark.parametrize("number", [1, 5])
def test_what_has_expired_is_said_once(
    cloud: Cloud, database: Database, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    uuids = [a_guest(each).uuid for each in range(number)]
    for uuid in uuids:
        cloud.claim(uuid)
    let_pass(database, 900)
    with caplog.at_level(logging.INFO, logger="compute_agent"):
        cloud.audit()
        cloud.audit()
    some = ", ".join(uuids[:3]) + (", ..." if number > 3 else "")
    assert caplog.messages == [f"Claims expired unused on node alpha: {number}, {some}"]


def test_what_went_well_is_said_to_those_who_debug(
    cloud: Cloud, caplog: pytest.LogCaptureFixture
) -> None:
    cloud.claim(U[1])
    cloud.claim(U[2])
    execute(
        cloud.database,
        "UPDATE allocations SET state = 'alternate', slot = -1 WHERE instance_uuid = :uuid",
        uuid=U[2],
    )
    let_pass(cloud.database, 901)
    with caplog.at_level(logging.DEBUG, logger="compute_agent"):
        cloud.come(G[1])
    found = [each for each in caplog.messages if each.startswith("Claims")]
    assert found == [
        f"Claims confirmed on node alpha: {U[1]}",
        f"Claims ended on node alpha: {U[2]}",
    ]
    assert "INFO" not in {record.levelname for record in caplog.records}


def test_pushes_name_the_claims_that_still_count(cloud: Cloud, database: Database) -> None:
    for uuid in U[1:4]:
        cloud.claim(uuid)
    cloud.published.clear()
    cloud.come(G[1])
    (stored,) = cloud.published
    assert {row.uuid for row in stored.claims} == {U[2], U[3]}
    (node,) = stored.nodes
    assert (node.claims, {row.compute_node_id for row in stored.claims}) == (2, {node.id})
    assert list(stored.claims) == database.read(existing.as_instances)


def test_a_claim_that_ends_without_a_trace_in_the_figures_is_news_to_schedulers(
    cloud: Cloud, database: Database
) -> None:
    cloud.claim(U[1])
    manage(database, U[1], "alpha", "alpha")
    cloud.audit()
    assert claimed(database) == {U[1]: "confirmed"}
    before = nodes(database)[0]
    # Another one like it takes its place.
    manage(database, U[1], "alpha", "alpha", vm_state="deleted")
    manage(database, U[2], "alpha", "alpha")
    cloud.audit()
    after = nodes(database)[0]
    assert (claimed(database), after.generation) == ({}, before.generation + 1)
    assert (after.stats, after.memory_mb_used) == (before.stats, before.memory_mb_used)
    assert [row.id for row in cloud.published[-1].nodes] == [after.id]


def test_a_claim_for_an_instance_that_is_there_waits_for_its_new_size(
    cloud: Cloud, database: Database
) -> None:
    cloud.come(G[1])
    cloud.claim(U[1], in_place=True, vcpus=4, memory_mb=4096, disk_mb=5120)
    cloud.audit()
    assert (used(database)[:2], claimed(database)) == ((6, 512 + 6144), {U[1]: "pending"})
    cloud.driver.remove_guest("alpha", U[1])
    cloud.come(a_guest(1, vcpus=4, memory_mb=4096, root_gb=5))
    assert (used(database)[:2], claimed(database)) == ((4, 512 + 4096), {U[1]: "confirmed"})


def cells(**changes: Any) -> InstanceNUMATopology:
    return InstanceNUMATopology([InstanceNUMACell(0, memory=2048, **changes)])


PINNED = cells(pcpuset={0, 1}, cpu_pinning={0: 4, 1: 5}, cpu_policy="dedicated")
HUGE = cells(cpuset={0, 1}, pagesize=2048)
# What a flavor of the same size may ask for besides, and a guest that has it.
OWN = {
    "pinned CPUs": ({"numa": guest_topology_to_json(PINNED)}, {"numa": PINNED}),
    "huge pages": ({"numa": guest_topology_to_json(HUGE)}, {"numa": HUGE}),
    "a device": (
        {"pci": pci_pools_to_json([PciDevicePool("10de", "20b0", count=1)])},
        {"pci_addresses": ("0000:05:00.0",)},
    ),
    "an interface": (
        {"pci": pci_pools_to_json([PciDevicePool("8086", "154c", count=1)])},
        {"device_names": ("ens1v0",)},
    ),
}


@pytest.mark.parametrize(("claimed_for", "becomes"), OWN.values(), ids=OWN)
def test_a_claim_of_the_size_that_an_instance_has_waits_for_what_it_has_not(
    cloud: Cloud, database: Database, claimed_for: dict[str, str], becomes: dict[str, Any]
) -> None:
    cloud.come(G[1])
    cloud.claim(U[1], in_place=True, documents={}, **claimed_for)
    cloud.audit()
    assert claimed(database) == {U[1]: "pending"}
    cloud.come(replace(G[1], **becomes))
    assert claimed(database) == {U[1]: "confirmed"}


@pytest.mark.parametrize("numa", [cells(cpuset={0, 1}), cells(cpuset={0, 1}, pagesize=4), PINNED])
def test_a_claim_of_what_an_instance_has_is_confirmed_at_once(
    cloud: Cloud, database: Database, numa: InstanceNUMATopology
) -> None:
    cloud.come(replace(G[1], numa=PINNED))
    cloud.claim(U[1], in_place=True, documents={}, numa=guest_topology_to_json(numa))
    cloud.audit()
    assert claimed(database) == {U[1]: "confirmed"}


def test_a_move_for_which_a_claim_holds_the_room_counts_once(
    cloud: Cloud, database: Database
) -> None:
    manage(database, U[1], "beta", "beta", task_state="resize_migrating")
    cloud.claim(U[1], vcpus=2, memory_mb=4096, disk_mb=20480)
    before = used(database)
    migrate(database, U[1], "beta", "alpha")
    cloud.audit()
    assert used(database) == before == (2, 512 + 4096, 20480, 1)
    # The claim is over and the instance on its way still.
    let_pass(database, 900)
    cloud.audit()
    assert used(database) == (2, 512 + 4096, 20480, 0)


def test_a_deleted_node_forgets_what_was_claimed(
    cloud: Cloud, conf: cfg.ConfigOpts, database: Database
) -> None:
    cloud.claim(U[1])
    conf.set_override("nodes", 0, group="fake")
    cloud.audit()
    assert (nodes(database), claimed(database)) == ([], {})
    conf.set_override("nodes", 1, group="fake")
    cloud.audit()
    assert used(database) == EMPTY


def test_what_is_claimed_on_a_dead_row_counts_when_it_lives_again(
    cloud: Cloud, conf: cfg.ConfigOpts, database: Database
) -> None:
    cloud.claim(U[1])
    # Not by its agent.
    database.write(lambda each: compute_nodes.delete(each, "alpha", ["alpha"]))
    cloud.audit()
    assert (used(database), claimed(database)) == (CLAIMED, {U[1]: "pending"})


def test_an_audit_after_a_claim_looks_once_and_writes_nothing(
    cloud: Cloud, database: Database
) -> None:
    statements: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements.append(statement)

    cloud.come(G[2])
    cloud.claim(U[1])
    before = nodes(database)
    sa.event.listen(database.engine, "before_cursor_execute", note)
    cloud.audit()
    first, statements[:] = statements[:], []
    cloud.audit()
    sa.event.remove(database.engine, "before_cursor_execute", note)
    assert "BEGIN IMMEDIATE" in first
    assert not [each for each in first if each.startswith(("INSERT", "UPDATE", "DELETE"))]
    # The second one reads marks, managed instances, moves and overdue claims.
    assert len([each for each in statements if each.startswith("SELECT")]) <= 6
    assert "BEGIN IMMEDIATE" not in statements
    assert nodes(database) == before


class Interrupted(Database):
    """A database in which others do something before the next transaction that writes."""

    first: Callable[[], None] | None = None

    def write(self, work: Callable[[sa.Connection], Any]) -> Any:
        first, self.first = self.first, None
        if first:
            first()
        return super().write(work)


@pytest.fixture
def interrupted(conf: cfg.ConfigOpts, database: Database) -> Cloud:
    return Cloud(conf, Interrupted(database.engine))


def interrupt(cloud: Cloud, first: Callable[[], None]) -> None:
    assert isinstance(cloud.database, Interrupted)
    cloud.database.first = first


def test_a_claim_after_the_look_is_not_confirmed_by_it(
    interrupted: Cloud, database: Database
) -> None:
    """The guest that was seen may have left, and its instance be on its way back."""
    cloud = interrupted
    cloud.driver.add_guest("alpha", G[1])

    def move_away_and_back() -> None:
        cloud.driver.remove_guest("alpha", U[1])
        claim_after_the_look(database)

    interrupt(cloud, move_away_and_back)
    cloud.audit()
    assert claimed(database) == {U[1]: "pending"}
    # Twice for a moment, never not at all.
    assert used(database) == (4, 512 + 4096, 5120 + 5000, 1)
    cloud.audit()
    assert (used(database), claimed(database)) == (CLAIMED, {U[1]: "pending"})


def test_a_claim_after_the_look_is_confirmed_by_the_next_one(
    interrupted: Cloud, database: Database
) -> None:
    cloud = interrupted
    cloud.driver.add_guest("alpha", G[1])

    interrupt(cloud, lambda: claim_after_the_look(database))
    cloud.audit()
    assert claimed(database) == {U[1]: "pending"}
    let_pass(database, 30)
    cloud.audit()
    assert (used(database), claimed(database)) == (SEEN, {U[1]: "confirmed"})


def test_what_became_overdue_since_the_look_may_have_come_since(
    cloud: Cloud, database: Database
) -> None:
    cloud.claim(U[1])
    let_pass(database, 950)
    row = nodes(database)[0]
    found = PollResult(
        NodeName("alpha", "alpha"), row.uuid, 7, Settings("192.0.2.1"), some_facts(), []
    )
    mark = database.read(lambda each: compute_nodes.row_versions(each, ["alpha"]))["alpha", "alpha"]

    def store_batch(looked: float) -> AuditResult:
        batch = Batch([found], {found.name: mark}, looked, timedelta(hours=1))
        return database.write(lambda connection: transaction.store(connection, batch))

    store_batch(time.monotonic() - 100)
    assert claimed(database) == {U[1]: "pending"}
    store_batch(time.monotonic())
    assert claimed(database) == {}


def test_a_claim_that_is_released_meanwhile_is_gone(interrupted: Cloud, database: Database) -> None:
    cloud = interrupted
    cloud.claim(U[1])
    cloud.driver.add_guest("alpha", G[2])
    interrupt(cloud, lambda: release(database, U[1]))
    cloud.audit()
    assert (used(database), claimed(database)) == (SEEN, {})


def claim_after_the_look(database: Database) -> None:
    """Claim, and let some time lie between the last look at the hypervisor and that."""
    claim(database, U[1], nodes(database)[0])
    let_pass(database, -10)
