# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Every character is stored, whatever the URL says; a value that is refused costs its row alone."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from compute_agent.audit.tracker import ResourceTracker
from compute_agent.virt.driver import NodeFacts, NodeName
from compute_agent.virt.fake import FakeDriver
from inventory import aggregates, compute_nodes, instances, migrations, services
from inventory.command_engine import single_engine
from inventory.database_errors import DataRefused
from inventory.engine import Database, open_database, pooled_engine
from inventory.migrations import SchemaError
from inventory.operations import aggregate_operations
from tests.databases import a_conf, an_instance, empty, execute, open_at, serve
from tests.fixtures import agent, availability
from tests.fixtures.agent import a_guest
from tests.fixtures.daemons.mariadb import MariaDB

ROCKET = "rack \U0001f680"
# What operators and tools put into URLs.
QUERIES = [
    "",
    "?charset=utf8",
    "?charset=latin1",
    "?charset=utf8&collation=utf8mb3_general_ci",
    "?charset=utf8mb4&init_command=SET%20NAMES%20latin1",
    "?use_unicode=0",
]


# The same server through mysqlclient is for the matrix.
DRIVERS = ["pymysql", pytest.param("mysqldb", marks=pytest.mark.matrix)]


@pytest.fixture(scope="module")
def on_server(mariadb: MariaDB) -> Iterator[Database]:
    """A database on a server, with all tables."""
    with closing(open_at(mariadb.create_database(f"test_{uuid4().hex}"))) as made:
        migrations.sync(made)
        yield made


@pytest.fixture(params=DRIVERS)
def server_url(request: pytest.FixtureRequest, on_server: Database) -> Iterator[str]:
    """Return the URL of that database, without parameters and rows."""
    if request.param == "mysqldb":
        availability.require(availability.MYSQLCLIENT)
    url = on_server.engine.url.set(query={}, drivername=f"mysql+{request.param}")
    yield url.render_as_string(hide_password=False)
    empty(on_server)


@pytest.mark.parametrize("make_engine", [pooled_engine, single_engine])
@pytest.mark.parametrize("query", QUERIES)
def test_every_character_is_stored_whatever_the_url_says(
    server_url: str, on_server: Database, query: str, make_engine: Callable[..., sa.Engine]
) -> None:
    conf = a_conf(connection=server_url + query)
    with closing(open_database(conf, make_engine)) as opened:
        opened.write(lambda each: aggregate_operations.create(each, ROCKET, {}))
        (found,) = opened.read(aggregates.everything)
    assert found.name == ROCKET
    (found,) = on_server.read(aggregates.everything)
    assert found.name == ROCKET


def test_parameters_beside_the_url_change_no_character_either(
    server_url: str, on_server: Database
) -> None:
    conf = a_conf(connection=server_url, connection_parameters="charset=utf8")
    with closing(open_database(conf)) as opened:
        opened.write(lambda each: aggregate_operations.create(each, ROCKET, {}))
    (found,) = on_server.read(aggregates.everything)
    assert found.name == ROCKET


@pytest.fixture
def narrow(on_server: Database) -> Iterator[Database]:
    """A database whose nodes and instances have three bytes for a character."""
    for table in ("instances", "compute_nodes"):
        execute(on_server, f"ALTER TABLE {table} CONVERT TO CHARACTER SET utf8mb3")
    yield on_server
    empty(on_server)
    migrations.sync(on_server)


def test_tables_of_another_character_set_are_found_at_the_start_and_converted(
    narrow: Database,
) -> None:
    with pytest.raises(
        SchemaError, match=r"compute_nodes, instances lacks .* 'berthmaster db sync'"
    ):
        migrations.check(narrow)
    migrations.sync(narrow)
    migrations.check(narrow)
    guest = an_instance(display_name=ROCKET)
    narrow.write(lambda each: instances.replace(each, "h1", "h1", [guest]))
    assert [row.display_name for row in narrow.read(instances.all_live)] == [ROCKET]


class TypedDriver(FakeDriver):
    """A driver whose nodes have types of their own."""

    types: ClassVar[dict[str, str]] = {}

    def facts(self, name: NodeName) -> NodeFacts:
        facts = super().facts(name)
        return replace(facts, hypervisor_type=self.types.get(name.node, "fake"))


@pytest.fixture
def conf(tmp_path: Path) -> cfg.ConfigOpts:
    return agent.options(tmp_path, DEFAULT={"compute_driver": "fake"}, fake={"nodes": 3})


def rows(database: Database) -> dict[str, Any]:
    return {row.hypervisor_hostname: row for row in database.read(compute_nodes.all_live)}


def test_a_guest_that_cannot_be_stored_costs_no_other_row(
    narrow: Database, conf: cfg.ConfigOpts
) -> None:
    driver = FakeDriver(conf)
    for number, name in ((1, ROCKET), (2, "plain"), (3, "")):
        driver.add_guest("alpha-node-0001", a_guest(number, name=name))
    driver.add_guest("alpha-node-0002", a_guest(4, name="beside"))
    ResourceTracker(conf, narrow, driver).audit({"alpha": 7})
    names = {row.uuid: row.display_name for row in narrow.read(instances.all_live)}
    assert sorted(names.values()) == ["", "beside", "plain", "rack ?"]
    assert [row.running_vms for row in rows(narrow).values()] == [3, 1, 0]
    # Another name later, and one that it has no row for at all.
    driver.add_guest("alpha-node-0001", a_guest(5, name="later", vm_state="x" * 300))
    ResourceTracker(conf, narrow, driver).audit({"alpha": 7})
    names = {row.uuid: row.display_name for row in narrow.read(instances.all_live)}
    assert a_guest(5).uuid not in names
    assert rows(narrow)["alpha-node-0001"].running_vms == 4


def test_a_node_that_cannot_be_stored_keeps_its_row_alone(
    narrow: Database, conf: cfg.ConfigOpts
) -> None:
    driver = TypedDriver(conf)
    driver.types = {"alpha-node-0002": ROCKET}
    tracker = ResourceTracker(conf, narrow, driver)
    tracker.audit({"alpha": 7})
    assert sorted(rows(narrow)) == ["alpha-node-0001", "alpha-node-0003"]
    driver.types = {}
    tracker.audit({"alpha": 7})
    assert len(rows(narrow)) == 3
    driver.types = dict.fromkeys(rows(narrow), ROCKET)
    with pytest.raises(DataRefused, match="hypervisor_type"):
        tracker.audit({"alpha": 7})


def test_a_lone_half_of_a_character_is_replaced_in_what_agents_write(
    database: Database, conf: cfg.ConfigOpts
) -> None:
    driver = FakeDriver(conf)
    odd = a_guest(1, name="a\ud83d\0", flavor_name="\udc80", project_id="p\udfff")
    driver.add_guest("alpha-node-0001", odd)
    driver.add_guest("alpha-node-0002", a_guest(2, name="beside"))
    ids = serve(database, "alpha")
    ResourceTracker(conf, database, driver).audit({"alpha": ids[0]})
    found = {row.uuid: row for row in database.read(instances.all_live)}
    assert found[odd.uuid].display_name == "a?\0"
    assert (found[odd.uuid].flavor_name, found[odd.uuid].project_id) == ("?", "p?")
    database.write(lambda each: services.disable_automatically(each, ids, "no \ud800" + "x" * 300))
    (row,) = database.read(services.all_live)
    assert row.disabled_reason == "AUTO: no ?" + "x" * 245


@pytest.mark.parametrize("name", ["\ud83d", chr(0xDC80)])
def test_a_value_that_is_refused_is_said_without_the_statement(
    database: Database, name: str
) -> None:
    check_refusal(database, name)


def test_so_is_one_that_is_too_long_for_a_server(on_server: Database) -> None:
    check_refusal(on_server, "x" * 300)


def check_refusal(database: Database, name: str) -> None:
    with pytest.raises(DataRefused) as caught:
        database.write(lambda each: aggregates.create(each, name, (), {}))
    assert "INSERT" not in str(caught.value)
    assert "\n" not in str(caught.value)
