# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The driver of a Nova cloud: which hosts it reports, and what becomes of cells that are away."""

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from compute_agent.virt.driver import DriverMisconfigured, DriverUnavailable, NodeName
from compute_agent.virt.nova.driver import NovaDriver
from inventory.aggregates import AggregateRecord
from inventory.services import ServiceState
from tests.databases import a_uuid
from tests.fixtures import agent
from tests.fixtures.daemons.process import wait_until
from tests.nova_tables import CELL, NovaTables, ago
from tests.status_tables import documented, served

H1, H2, H3 = (NodeName(each, each) for each in ("h1", "h2", "h3"))
OTHER_CELL = CELL.replace("c1", "c2")
Cloud = dict[str, NovaTables]


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    """Two cells: one of h1 and h2, one of h3."""
    found = {
        "api": NovaTables(tmp_path / "api.sqlite", api=True),
        "cell1": NovaTables(tmp_path / "cell1.sqlite"),
        "cell2": NovaTables(tmp_path / "cell2.sqlite"),
    }
    for number, (name, uuid) in enumerate((("cell1", CELL), ("cell2", OTHER_CELL)), 1):
        url = found[name].url
        found["api"].add("cell_mappings", uuid=uuid, name=name, database_connection=url)
        for host in {1: ("h1", "h2"), 2: ("h3",)}[number]:
            found[name].add_host(host)
            found["api"].add("host_mappings", host=host, cell_id=number)
    yield found
    for each in found.values():
        each.close()


@pytest.fixture
def conf(tmp_path: Path, cloud: Cloud) -> cfg.ConfigOpts:
    """Options with which polls are frequent, and what does not answer is soon lost."""
    return agent.options(
        tmp_path,
        DEFAULT={"compute_driver": "nova", "service_down_time": 2, "report_interval": 1},
        api_database={"connection": cloud["api"].url},
        nova={"poll_interval": 0.1},
    )


@pytest.fixture
def driver(conf: cfg.ConfigOpts) -> Iterator[NovaDriver]:
    made = NovaDriver(conf)
    yield made
    made.close()


def noted(driver: NovaDriver, condition: Callable[[], bool]) -> set[NodeName]:
    """Return the nodes that were noted until something came true."""
    found: set[NodeName] = set()

    def look() -> bool:
        found.update(driver.changes.wait(0.05))
        return condition()

    assert wait_until(look)
    return found


def keep_alive(cloud: Cloud, *hosts: str) -> None:
    """Let services have beaten so that they are alive as long as the test takes."""
    for name in ("cell1", "cell2"):
        for host in hosts:
            cloud[name].change("services", {"host": host}, last_seen_up=ago(-600))


def test_it_connects_nothing_when_it_is_made(tmp_path: Path) -> None:
    conf = agent.options(tmp_path, api_database={"connection": f"sqlite:///{tmp_path}/none"})
    made = NovaDriver(conf)
    assert made.hosts() == []
    made.close()
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("url", [None, "nonsense"])
def test_it_says_what_it_needs(tmp_path: Path, url: str | None) -> None:
    conf = agent.options(tmp_path)
    conf.set_override("connection", url, group="api_database")
    with pytest.raises(DriverMisconfigured, match=r"\[api_database\] connection"):
        NovaDriver(conf)


def test_hosts_of_all_cells_are_reported(driver: NovaDriver) -> None:
    assert set(driver.nodes()) == {H1, H2, H3}
    assert set(driver.service_states()) == set(driver.hosts()) == {"h1", "h2", "h3"}
    assert driver.facts(H3).uuid == a_uuid("h3")
    assert list(driver.guests(H3)) == []
    assert driver.polled_at() > 0


def test_only_hosts_of_the_mapped_cell_are_reported(driver: NovaDriver, cloud: Cloud) -> None:
    cloud["api"].change("host_mappings", {"host": "h2"}, cell_id=2)
    with cloud["api"].engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM host_mappings WHERE host = 'h1'"))
    assert driver.nodes() == [H3]
    cloud["api"].add("host_mappings", host="h1", cell_id=1)
    assert H1 in noted(driver, lambda: set(driver.nodes()) == {H1, H3})


def test_changes_are_noted(driver: NovaDriver, cloud: Cloud) -> None:
    driver.nodes()
    uuid = cloud["cell1"].boot(1, "h2", updated_at=ago(0))
    assert noted(driver, lambda: bool(driver.guests(H2))) >= {H2}
    assert [each.uuid for each in driver.guests(H2)] == [uuid]


def test_aggregates_are_the_same_object_until_they_change(driver: NovaDriver, cloud: Cloud) -> None:
    driver.nodes()
    before = driver.aggregates()
    assert before == []
    cloud["api"].add("aggregates", uuid=a_uuid("ssd"), name="ssd")
    cloud["api"].add("aggregate_hosts", aggregate_id=1, host="h1")
    noted(driver, lambda: len(driver.aggregates() or ()) == 1)
    cloud["api"].add("aggregate_metadata", aggregate_id=1, key="ssd", value="true")
    noted(driver, lambda: (driver.aggregates() or before)[0].metadata == {"ssd": "true"})
    assert driver.aggregates() is driver.aggregates()
    assert driver.aggregates() == [
        AggregateRecord(1, a_uuid("ssd"), "ssd", ["h1"], {"ssd": "true"})
    ]


def test_states_of_services_and_aggregates_are_asked_for_between_two_polls(
    conf: cfg.ConfigOpts, cloud: Cloud
) -> None:
    conf.set_override("poll_interval", 3600.0, "nova")
    conf.set_override("quick_poll_interval", 0.05, "nova")
    driver = NovaDriver(conf)
    try:
        assert driver.service_states()["h2"] == ServiceState(cell_uuid=CELL)
        cloud["cell1"].change("services", {"host": "h2"}, forced_down=True)
        assert H2 in noted(driver, lambda: driver.service_states()["h2"].forced_down)
        cloud["cell1"].change("services", {"host": "h1"}, disabled=True, disabled_reason="disk")
        reason = "disabled in Nova: disk"
        noted(driver, lambda: driver.service_states()["h1"].disabled_reason == reason)
        cloud["api"].add("aggregates", uuid=a_uuid("ssd"), name="ssd")
        cloud["api"].add("aggregate_hosts", aggregate_id=1, host="h1")
        noted(driver, lambda: [each.hosts for each in driver.aggregates() or ()] == [["h1"]])
        # What is away is found away, and read whole when it is back.
        hide(cloud["cell1"], "services", "hidden")
        assert wait_until(lambda: "services" in str(failure_of(driver)))
    finally:
        driver.close()


def failure_of(driver: NovaDriver) -> DriverUnavailable | None:
    """Return why a driver does not answer about a node."""
    try:
        driver.facts(H1)
    except DriverUnavailable as error:
        return error
    return None


def test_a_disabled_cell_gets_nothing(driver: NovaDriver, cloud: Cloud) -> None:
    keep_alive(cloud, "h1", "h3")
    driver.nodes()
    cloud["api"].change("cell_mappings", {"name": "cell2"}, disabled=True)
    expected = ServiceState("cell cell2 is disabled in Nova", cell_uuid=OTHER_CELL)
    assert wait_until(lambda: driver.service_states()["h3"] == expected)
    assert driver.service_states()["h1"] == ServiceState(cell_uuid=CELL)


def test_a_cell_that_moves_keeps_its_hosts(
    driver: NovaDriver, cloud: Cloud, tmp_path: Path
) -> None:
    assert H3 in driver.nodes()
    new = NovaTables(tmp_path / "new.sqlite")
    new.add_host("h3", memory_mb=1024)
    key = {"name": "cell2"}
    cloud["api"].change("cell_mappings", key, database_connection="mysql+pymysql://127.0.0.1:1/a")
    assert wait_until(lambda: not driver.service_states()["h3"].is_alive)
    assert H3 in driver.nodes()
    cloud["api"].change("cell_mappings", key, database_connection=new.url, updated_at=ago(-5))
    assert H3 in noted(driver, lambda: driver.service_states()["h3"].is_alive)
    assert driver.facts(H3).memory_mb == 1024
    new.close()


def test_a_host_without_a_service_is_down(driver: NovaDriver, cloud: Cloud) -> None:
    keep_alive(cloud, "h1", "h2", "h3")
    cloud["cell2"].change("services", {"host": "h3"}, deleted=1, deleted_at=ago(0))
    assert driver.service_states() == {
        "h1": ServiceState(cell_uuid=CELL),
        "h2": ServiceState(cell_uuid=CELL),
        "h3": ServiceState(is_alive=False, cell_uuid=OTHER_CELL),
    }


def test_a_cell_that_is_away_is_stale_then_down_and_the_others_go_on(
    driver: NovaDriver, cloud: Cloud
) -> None:
    keep_alive(cloud, "h1", "h2", "h3")
    assert wait_until(lambda: driver.service_states()["h3"].is_alive)
    hide(cloud["cell2"], "compute_nodes", "hidden")

    def is_stale() -> bool:
        try:
            driver.facts(H3)
        except DriverUnavailable:
            return True
        return False

    assert wait_until(is_stale)
    assert driver.service_states()["h3"].is_alive
    assert H3 in noted(driver, lambda: not driver.service_states()["h3"].is_alive)
    assert driver.service_states()["h1"].is_alive
    assert driver.facts(H1).vcpus == 16
    hide(cloud["cell2"], "hidden", "compute_nodes")
    assert H3 in noted(driver, lambda: driver.service_states()["h3"].is_alive)
    assert driver.facts(H3).vcpus == 16


def test_without_the_api_database_there_is_no_answer(conf: cfg.ConfigOpts, cloud: Cloud) -> None:
    hide(cloud["api"], "cell_mappings", "hidden")
    driver = NovaDriver(conf)
    with pytest.raises(DriverUnavailable, match="cell_mappings"):
        driver.nodes()
    hide(cloud["api"], "hidden", "cell_mappings")
    assert wait_until(lambda: driver._version is not None)
    assert set(driver.nodes()) == {H1, H2, H3}
    driver.close()
    with pytest.raises(DriverUnavailable, match="closed"):
        driver.nodes()


def hide(tables: NovaTables, old: str, new: str) -> None:
    with tables.engine.begin() as connection:
        connection.execute(sa.text(f"ALTER TABLE {old} RENAME TO {new}"))


def metrics(driver: NovaDriver) -> dict[str, float]:
    """Return the values by the names of metrics, with the cell where they are by cell."""
    samples = [sample for metric in driver.metrics() for sample in metric.samples]
    prefix = "berthmaster_nova_"
    return {":".join([s.name.removeprefix(prefix), *s.labels.values()]): s.value for s in samples}


def test_hosts_without_mapping_and_cells_that_do_not_answer_are_measured(
    cloud: Cloud, driver: NovaDriver
) -> None:
    assert metrics(driver) == {"hosts_without_mapping": 0}
    assert served(driver.metrics()) == documented("agent that reads Nova")
    cloud["cell1"].add_host("h4")
    driver.nodes()
    assert metrics(driver) == {
        "hosts_without_mapping": 1,
        "cell_answering:cell1": 1,
        "cell_answering:cell2": 1,
    }
    hide(cloud["cell2"], "compute_nodes", "hidden")
    assert wait_until(lambda: metrics(driver)["cell_answering:cell2"] == 0)
    cloud["api"].add("host_mappings", host="h4", cell_id=1)
    assert wait_until(lambda: metrics(driver)["hosts_without_mapping"] == 0)


def test_a_standby_reads_all_and_says_when_it_could_not_take_over(
    driver: NovaDriver, cloud: Cloud
) -> None:
    driver.stand_by()
    cloud["cell1"].change("compute_nodes", {"host": "h1"}, memory_mb=1024)
    assert noted(driver, lambda: driver.facts(H1).memory_mb == 1024) >= {H1}
    hide(cloud["cell1"], "compute_nodes", "away")
    assert wait_until(lambda: metrics(driver)["cell_answering:cell1"] == 0)
    # Nor could the active agent read that cell.
    driver.stand_by()
    hide(cloud["cell2"], "compute_nodes", "away")
    assert wait_until(lambda: metrics(driver)["cell_answering:cell2"] == 0)
    with pytest.raises(DriverUnavailable, match=r"Nova's database cell\d cannot be read"):
        driver.stand_by()


@pytest.fixture
def seldom(conf: cfg.ConfigOpts) -> None:
    """No poll comes by itself while a test takes."""
    for name in ("poll_interval", "quick_poll_interval"):
        conf.set_override(name, 3600.0, "nova")


@pytest.mark.usefixtures("seldom")
def test_after_a_takeover_it_asks_all_databases_again(driver: NovaDriver, cloud: Cloud) -> None:
    assert driver.is_current(time.monotonic())
    driver.stand_by()
    since = time.monotonic()
    keep_alive(cloud, "h1", "h2", "h3")
    cloud["cell1"].change("services", {"host": "h1"}, disabled=True, disabled_reason="switched")
    assert not driver.is_current(since)
    assert wait_until(lambda: driver.is_current(since))
    assert driver.service_states()["h1"].disabled_reason == "disabled in Nova: switched"


def test_a_new_cell_that_hangs_does_not_stop_the_others(driver: NovaDriver, cloud: Cloud) -> None:
    driver.nodes()
    since = time.monotonic()
    assert wait_until(lambda: driver.is_current(since))
    with socket.create_server(("127.0.0.1", 0)) as server:
        # It takes connections and answers nothing.
        port = server.getsockname()[1]
        url = f"mysql+pymysql://nova:secret@127.0.0.1:{port}/nova"
        uuid = CELL.replace("c1", "c3")
        cloud["api"].add("cell_mappings", uuid=uuid, name="cell3", database_connection=url)
        connection, _ = server.accept()
        with connection:
            assert driver.is_current(since)
            assert driver.facts(H1).uuid == a_uuid("h1")


def test_old_aggregates_are_not_told_after_a_takeover(driver: NovaDriver, cloud: Cloud) -> None:
    driver.stand_by()
    assert driver.aggregates() is not None
    hide(cloud["api"], "cell_mappings", "hidden")
    since = time.monotonic()
    assert wait_until(lambda: driver.is_current(since))
    assert driver.aggregates() is None
    hide(cloud["api"], "hidden", "cell_mappings")
    assert wait_until(lambda: driver.aggregates() is not None)
