# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""An agent keeps its identity and refuses to be somebody else."""

from pathlib import Path

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from compute_agent import identity
from compute_agent.identity import IdentityError
from compute_agent.virt.driver import NodeName
from compute_agent.virt.fake import FakeDriver
from inventory import compute_nodes, services
from inventory.engine import Database
from tests.fixtures import agent

MINE = agent.UUID.format(1)
OTHER = agent.UUID.format(2)


class OneNode(FakeDriver):
    """A driver whose node has no uuid of its own, as libvirt's."""

    knows_uuids = False


@pytest.fixture
def driver(conf: cfg.ConfigOpts) -> OneNode:
    return OneNode(conf)


def keep(conf: cfg.ConfigOpts, text: str) -> Path:
    file = identity.path(conf)
    file.write_text(text)
    return file


def store(database: Database, uuid: str, host: str = "alpha", node: str = "node-a") -> None:
    row = {
        "uuid": uuid,
        "host": host,
        "hypervisor_hostname": node,
        "hypervisor_type": "QEMU",
        "cpu_info": "",
    }
    numbers = ("hypervisor_version", "vcpus", "memory_mb", "local_gb")
    used = ("vcpus_used", "memory_mb_used", "local_gb_used")
    row |= dict.fromkeys((*numbers, *used), 0)
    database.write(lambda connection: compute_nodes.save(connection, [row]))


def test_a_new_host_gets_a_uuid_that_stays(
    conf: cfg.ConfigOpts, database: Database, driver: OneNode
) -> None:
    identity.establish(conf, database, driver)
    first = identity.path(conf).read_text()
    identity.establish(conf, database, driver)
    assert identity.path(conf).read_text() == first
    assert identity.confirm(conf, database, NodeName("alpha", "node-a")) == first.strip()
    assert [file.name for file in identity.path(conf).parent.glob(".compute_id*")] == []


def test_a_known_host_goes_on(conf: cfg.ConfigOpts, database: Database, driver: OneNode) -> None:
    # Some editors begin a file with a byte order mark.
    keep(conf, f"\ufeff {MINE.upper()}\n")
    store(database, MINE)
    identity.establish(conf, database, driver)
    assert identity.confirm(conf, database, NodeName("alpha", "node-a")) == MINE


def test_a_driver_that_knows_uuids_needs_no_file(conf: cfg.ConfigOpts, database: Database) -> None:
    identity.establish(conf, database, FakeDriver(conf))
    assert not identity.path(conf).exists()


def test_a_lost_file_is_not_replaced_behind_the_operators_back(
    conf: cfg.ConfigOpts, database: Database, driver: OneNode
) -> None:
    store(database, MINE)
    with pytest.raises(IdentityError, match=f"{MINE}.*is missing: write {MINE} into it"):
        identity.establish(conf, database, driver)
    assert not identity.path(conf).exists()


def test_a_second_machine_of_the_same_name_is_refused(
    conf: cfg.ConfigOpts, database: Database, driver: OneNode
) -> None:
    keep(conf, OTHER)
    store(database, MINE)
    with pytest.raises(IdentityError, match=f"holds {OTHER}.*another .DEFAULT. host"):
        identity.establish(conf, database, driver)


def test_a_copied_state_directory_is_refused(
    conf: cfg.ConfigOpts, database: Database, driver: OneNode
) -> None:
    keep(conf, MINE)
    store(database, MINE, host="beta")
    with pytest.raises(IdentityError, match=r"has as host beta.*remove the file"):
        identity.establish(conf, database, driver)


def test_names_that_differ_by_letter_case_are_refused(
    conf: cfg.ConfigOpts, database: Database, driver: OneNode
) -> None:
    database.write(lambda each: services.register(each, ["Alpha", "b"], services.COMPUTE, 1))
    with pytest.raises(IdentityError, match="knows a host Alpha, and this one is called alpha"):
        identity.establish(conf, database, driver)


def test_a_renamed_hypervisor_is_refused(conf: cfg.ConfigOpts, database: Database) -> None:
    keep(conf, MINE)
    store(database, MINE)
    with pytest.raises(IdentityError, match=r"calls itself node-b.*node node-a so far"):
        identity.confirm(conf, database, NodeName("alpha", "node-b"))


@pytest.mark.parametrize(("text", "problem"), [("not-a-uuid", "no uuid"), ("", "no uuid")])
def test_a_spoilt_file_is_refused(
    conf: cfg.ConfigOpts, database: Database, driver: OneNode, text: str, problem: str
) -> None:
    keep(conf, text)
    with pytest.raises(IdentityError, match=problem):
        identity.establish(conf, database, driver)


def test_a_file_that_cannot_be_written_is_reported(
    conf: cfg.ConfigOpts, database: Database, driver: OneNode
) -> None:
    conf.set_override("state_path", identity.path(conf).parent / "agent.conf" / "below")
    with pytest.raises(IdentityError, match="cannot be"):
        identity.establish(conf, database, driver)


def test_a_file_that_goes_away_is_reported(conf: cfg.ConfigOpts, database: Database) -> None:
    with pytest.raises(IdentityError, match="is gone"):
        identity.confirm(conf, database, NodeName("alpha", "node-a"))


def refusals(database: Database, uuids: dict[NodeName, str]) -> dict[str, str]:
    """Return {node: reason} of those among these nodes, new or not, that are refused."""

    def read(connection: sa.Connection) -> dict[NodeName, IdentityError]:
        marks = compute_nodes.row_versions(connection, {name.host for name in uuids})
        known = {NodeName(*place): mark for place, mark in marks.items()}
        return identity.refusals(connection, uuids, known)

    return {name.node: str(error) for name, error in database.read(read).items()}


def test_nodes_that_are_what_they_were_are_not_refused(database: Database) -> None:
    store(database, MINE, node="known")
    new, known = NodeName("alpha", "new"), NodeName("alpha", "known")
    assert refusals(database, {known: MINE, new: OTHER}) == {}
    assert refusals(database, {}) == {}


def test_a_uuid_of_another_node_is_refused_even_if_that_is_dead(database: Database) -> None:
    store(database, MINE)
    for _ in range(2):
        found = refusals(database, {NodeName("alpha", "node-b"): MINE})
        assert "that of node node-a of host alpha: give it its old names back" in found["node-b"]
        found = refusals(database, {NodeName("beta", "node-a"): MINE})
        assert "node node-a of host beta has the uuid" in found["node-a"]
        database.write(lambda each: compute_nodes.delete(each, "alpha", ["node-a"]))
    # It may come back as what it was.
    assert refusals(database, {NodeName("alpha", "node-a"): MINE}) == {}


def test_a_node_with_another_uuid_than_its_row_is_refused(database: Database) -> None:
    store(database, MINE)
    found = refusals(database, {NodeName("alpha", "node-a"): OTHER})
    assert found.keys() == {"node-a"}
    assert f"uuid {MINE}, and here it has {OTHER}: another machine" in found["node-a"]


def test_of_two_new_nodes_with_one_uuid_the_second_is_refused(database: Database) -> None:
    found = refusals(database, {NodeName("alpha", "a"): MINE, NodeName("alpha", "b"): MINE})
    assert found.keys() == {"b"}
    assert "which is that of node a of host alpha" in found["b"]


def test_names_that_a_database_may_take_for_equal_are_refused(database: Database) -> None:
    store(database, MINE)
    found = refusals(database, {NodeName("alpha", "Node-A"): OTHER})
    assert "two nodes of the same name" in found["Node-A"]


def test_node_names_are_stripped() -> None:
    assert identity.distinct([NodeName(" a", "b ")]) == [NodeName("a", "b")]


@pytest.mark.parametrize("second", [NodeName("a", "N "), NodeName("A", "n")])
def test_nodes_of_the_same_name_are_refused(second: NodeName) -> None:
    with pytest.raises(IdentityError, match="two nodes of the same name"):
        identity.distinct([NodeName("a", "n"), second])


def test_a_node_without_a_name_is_refused() -> None:
    with pytest.raises(IdentityError, match="without a name"):
        identity.distinct([NodeName("a", " ")])
