# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Nodes fail, come, go and are mistaken for others; the rest are audited all the same."""

import logging
from dataclasses import replace

import pytest
from oslo_config import cfg

from compute_agent import identity
from compute_agent.audit.tracker import ResourceTracker
from compute_agent.audit.transaction import AuditResult
from compute_agent.identity import IdentityError
from compute_agent.virt.driver import DriverUnavailable, NodeFacts, NodeName
from compute_agent.virt.fake import FakeDriver
from inventory.engine import Database
from tests.fixtures import agent
from tests.fixtures.agent import a_guest, guests, nodes
from tests.records import manage

SERVICE = {"alpha": 7}
MINE = agent.UUID.format(71)
OTHER = agent.UUID.format(72)


def generations(database: Database) -> dict[str, int]:
    return {row.hypervisor_hostname: row.generation for row in nodes(database)}


@pytest.fixture
def several(conf: cfg.ConfigOpts) -> FakeDriver:
    """A host with three nodes."""
    conf.set_override("nodes", 3, group="fake")
    return FakeDriver(conf)


N1, N2, N3 = (f"alpha-node-000{number}" for number in (1, 2, 3))


def test_only_the_nodes_that_are_asked_for_are_audited(
    conf: cfg.ConfigOpts, database: Database, several: FakeDriver
) -> None:
    tracker = ResourceTracker(conf, database, several)
    tracker.audit(SERVICE, {NodeName("alpha", N2), NodeName("beta", "unknown")})
    assert generations(database) == {N2: 1}
    tracker.audit(SERVICE)
    for node in (N1, N2):
        several.add_guest(node, a_guest(int(node[-1])))
    tracker.audit(SERVICE, {NodeName("alpha", N1)})
    assert generations(database) == {N1: 2, N2: 1, N3: 1}
    tracker.audit(SERVICE, set())
    assert generations(database) == {N1: 2, N2: 1, N3: 1}


def test_a_node_that_fails_keeps_its_row_and_the_others_go_on(
    conf: cfg.ConfigOpts, database: Database, several: FakeDriver, caplog: pytest.LogCaptureFixture
) -> None:
    tracker = ResourceTracker(conf, database, several)
    for node in (N1, N2, N3):
        several.add_guest(node, a_guest(int(node[-1])))
    tracker.audit(SERVICE)
    for node in (N1, N2):
        several.fail("it hangs", node)
    for node in (N1, N2, N3):
        several.remove_guest(node, a_guest(int(node[-1])).uuid)
    for _ in range(2):
        tracker.audit(SERVICE)
    assert generations(database) == {N1: 1, N2: 1, N3: 2}
    assert len(guests(database)) == 2
    # An event on a node that fails is no failure of all.
    tracker.audit(SERVICE, {NodeName("alpha", N1)})
    assert [record.getMessage() for record in caplog.records] == [
        f"Cannot read node {N1} and 1 more, keeping its last reported resources: it hangs"
    ]
    several.fail("it is gone", N2)
    tracker.audit(SERVICE)
    assert (
        caplog.messages[-1]
        == f"Cannot read node {N2}, keeping its last reported resources: it is gone"
    )
    several.fail(None, N1)
    several.fail(None, N2)
    with caplog.at_level(logging.INFO, logger="compute_agent"):
        tracker.audit(SERVICE)
    assert caplog.messages[-1] == f"Resumed reporting node {N1} and 1 more"
    assert generations(database) == {N1: 2, N2: 2, N3: 2}


def test_when_all_nodes_fail_the_audit_does(
    conf: cfg.ConfigOpts, database: Database, several: FakeDriver
) -> None:
    tracker = ResourceTracker(conf, database, several)
    tracker.audit(SERVICE)
    for node in (N1, N2, N3):
        several.fail(f"{node} hangs", node)
    with pytest.raises(DriverUnavailable, match=f"{N1} hangs"):
        tracker.audit(SERVICE)
    assert generations(database) == {N1: 1, N2: 1, N3: 1}


def test_an_audit_that_is_closed_in_the_middle_says_nothing_of_the_rest(
    conf: cfg.ConfigOpts, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    class Closing(FakeDriver):
        # What a node is asked for last.
        def facts(self, node: NodeName) -> NodeFacts:
            found = super().facts(node)
            self.close()
            return found

    conf.set_override("nodes", 3, group="fake")
    with pytest.raises(DriverUnavailable, match="closed"):
        ResourceTracker(conf, database, Closing(conf)).audit(SERVICE)
    assert generations(database) == {N1: 1}
    assert caplog.messages == []


def test_nodes_that_are_gone_are_deleted_with_what_was_seen_on_them(
    conf: cfg.ConfigOpts, database: Database, several: FakeDriver, caplog: pytest.LogCaptureFixture
) -> None:
    tracker = ResourceTracker(conf, database, several)
    for number, node in enumerate((N1, N2, N3)):
        several.add_guest(node, a_guest(number))
    manage(database, a_guest(9).uuid, "alpha", N3)
    tracker.audit(SERVICE)
    before = {row.hypervisor_hostname: row for row in nodes(database)}
    conf.set_override("nodes", 2, group="fake")
    with caplog.at_level(logging.INFO, logger="compute_agent"):
        tracker.audit(SERVICE)
    assert generations(database) == {N1: 1, N2: 1}
    assert {row.node for row in guests(database).values() if not row.managed} == {N1, N2}
    assert a_guest(9).uuid in guests(database)
    assert caplog.messages == [f"Deleting node {N3}: the hypervisor no longer reports it"]
    tracker.audit(SERVICE)
    assert len(caplog.messages) == 1
    # It comes back as what it was.
    conf.set_override("nodes", 3, group="fake")
    tracker.audit(SERVICE)
    after = {row.hypervisor_hostname: row for row in nodes(database)}
    assert (after[N3].id, after[N3].uuid) == (before[N3].id, before[N3].uuid)
    assert after[N3].generation > before[N3].generation
    assert after[N3].running_vms == 2
    assert {row.node for row in guests(database).values()} == {N1, N2, N3}


def test_an_event_tells_of_a_node_that_is_gone(
    conf: cfg.ConfigOpts, database: Database, several: FakeDriver
) -> None:
    tracker = ResourceTracker(conf, database, several)
    tracker.audit(SERVICE)
    conf.set_override("nodes", 1, group="fake")
    tracker.audit(SERVICE, {NodeName("alpha", N2)})
    assert generations(database).keys() == {N1, N3}
    tracker.audit(SERVICE)
    assert generations(database).keys() == {"alpha"}


def test_all_nodes_of_a_host_may_be_gone(
    conf: cfg.ConfigOpts, database: Database, several: FakeDriver
) -> None:
    tracker = ResourceTracker(conf, database, several)
    tracker.audit(SERVICE)
    conf.set_override("nodes", 0, group="fake")
    tracker.audit(SERVICE)
    assert nodes(database) == []


def test_nodes_that_are_away_for_a_while_keep_their_rows(
    conf: cfg.ConfigOpts, database: Database
) -> None:
    class Rebalancing(FakeDriver):
        def is_gone(self, node: NodeName) -> bool:
            return node.node != N3

    conf.set_override("nodes", 3, group="fake")
    driver = Rebalancing(conf)
    tracker = ResourceTracker(conf, database, driver)
    driver.add_guest(N3, a_guest(1))
    tracker.audit(SERVICE)
    conf.set_override("nodes", 0, group="fake")
    tracker.audit(SERVICE)
    assert generations(database) == {N3: 1}
    assert len(guests(database)) == 1


def test_rows_of_other_hosts_are_nobody_s_business(
    conf: cfg.ConfigOpts, database: Database, tracker: ResourceTracker
) -> None:
    conf.set_override("host", "beta")
    ResourceTracker(conf, database, FakeDriver(conf)).audit({"beta": 8})
    tracker.audit(SERVICE)
    tracker.audit(SERVICE, {NodeName("beta", "beta")})
    assert generations(database) == {"alpha": 1, "beta": 1}


class Named(FakeDriver):
    """A host whose node has any name and uuid."""

    name = NodeName("alpha", "node-a")
    uuid = MINE

    def nodes(self) -> list[NodeName]:
        super().nodes()
        return [self.name]

    def facts(self, node: NodeName) -> NodeFacts:
        return replace(super().facts(node), uuid=self.uuid)


@pytest.mark.parametrize(
    ("name", "uuid", "problem"),
    [
        (NodeName("alpha", "node-b"), MINE, f"node-b .* uuid {MINE}, which is that of node node-a"),
        (NodeName("beta", "node-a"), MINE, "of host beta .* of node node-a of host alpha"),
        (NodeName("alpha", "node-a"), OTHER, "another machine has the same names"),
        (NodeName("alpha", "NODE-A"), OTHER, "two nodes of the same name"),
    ],
)
def test_a_node_that_is_not_what_it_was_is_refused_and_nothing_is_deleted(
    conf: cfg.ConfigOpts, database: Database, name: NodeName, uuid: str, problem: str
) -> None:
    driver = Named(conf)
    hosts = {"alpha": 7, "beta": 8}
    driver.add_guest("alpha", a_guest(1))
    ResourceTracker(conf, database, driver).audit(hosts)
    before = nodes(database), guests(database)
    driver.name, driver.uuid = name, uuid
    tracker = ResourceTracker(conf, database, driver)
    for only in (None, {name}):
        with pytest.raises(IdentityError, match=problem):
            tracker.audit(hosts, only)
    assert (nodes(database), guests(database)) == before


class Libvirt(FakeDriver):
    """A host whose node has any name, and a uuid in a file only."""

    knows_uuids = False
    node = "node-a"

    def nodes(self) -> list[NodeName]:
        return [NodeName("alpha", self.node)]

    def facts(self, node: NodeName) -> NodeFacts:
        return replace(super().facts(node), uuid=None)


def test_a_uuid_that_is_kept_in_a_file_stands_for_the_machine(
    conf: cfg.ConfigOpts, database: Database
) -> None:
    driver = Libvirt(conf)
    with pytest.raises(IdentityError, match="is gone: restart the agent"):
        ResourceTracker(conf, database, driver).audit(SERVICE)
    identity.path(conf).write_text(MINE)
    ResourceTracker(conf, database, driver).audit(SERVICE)
    assert [row.uuid for row in nodes(database)] == [MINE]
    # A second machine that started at the same moment, before either was known.
    identity.path(conf).write_text(OTHER)
    with pytest.raises(IdentityError, match="another machine has the same names"):
        ResourceTracker(conf, database, driver).audit(SERVICE)
    driver.node = "node-b"
    with pytest.raises(IdentityError, match="calls itself node-b, but host alpha has been node"):
        ResourceTracker(conf, database, driver).audit(SERVICE)
    assert [(row.uuid, row.hypervisor_hostname) for row in nodes(database)] == [(MINE, "node-a")]


def test_a_renamed_node_does_not_keep_the_others_from_their_rows(
    conf: cfg.ConfigOpts, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    class Renamed(FakeDriver):
        new = False

        def nodes(self) -> list[NodeName]:
            found = list(super().nodes())
            return [NodeName("alpha", "renamed"), *found[1:]] if self.new else found

        def facts(self, node: NodeName) -> NodeFacts:
            return super().facts(NodeName("alpha", N1) if node.node == "renamed" else node)

    conf.set_override("nodes", 3, group="fake")
    driver = Renamed(conf)
    tracker = ResourceTracker(conf, database, driver)
    tracker.audit(SERVICE)
    driver.new = True
    driver.add_guest(N2, a_guest(1))
    for _ in range(2):
        tracker.audit(SERVICE)
    assert generations(database) == {N1: 1, N2: 2, N3: 1}
    (message,) = caplog.messages
    assert message.startswith(
        "Cannot read node renamed, keeping its last reported resources: node renamed of host"
    )


def test_two_nodes_with_one_uuid_are_refused(conf: cfg.ConfigOpts, database: Database) -> None:
    class Cloned(FakeDriver):
        def facts(self, node: NodeName) -> NodeFacts:
            return replace(super().facts(node), uuid=MINE)

    conf.set_override("nodes", 2, group="fake")
    tracker = ResourceTracker(conf, database, Cloned(conf))
    for _ in range(2):
        tracker.audit(SERVICE)
        assert generations(database) == {N1: 1}


def test_what_changed_is_published(
    conf: cfg.ConfigOpts, database: Database, several: FakeDriver
) -> None:
    published: list[AuditResult] = []
    tracker = ResourceTracker(conf, database, several, publish=published.append)
    tracker.audit(SERVICE)
    assert {row.hypervisor_hostname for row in published.pop().nodes} == {N1, N2, N3}
    tracker.audit(SERVICE)
    assert published == []
    several.add_guest(N1, a_guest(1))
    tracker.audit(SERVICE)
    (stored,) = published
    assert [(row.hypervisor_hostname, row.generation) for row in stored.nodes] == [(N1, 2)]
    assert [row.uuid for row in stored.instances] == [a_guest(1).uuid]
    conf.set_override("nodes", 0, group="fake")
    tracker.audit(SERVICE)
    assert {row.hypervisor_hostname for row in published[-1].nodes if row.deleted} == {N1, N2, N3}
    assert [bool(row.deleted) for row in published[-1].instances] == [True]
