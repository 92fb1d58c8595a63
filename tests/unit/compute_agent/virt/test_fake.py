# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The fake driver plays the hosts that its options describe."""

from pathlib import Path
from uuid import UUID

import pytest

from compute_agent.virt.driver import (
    DriverCannot,
    DriverMisconfigured,
    DriverUnavailable,
    Guest,
    NodeName,
)
from compute_agent.virt.fake import FakeDriver
from tests.fixtures import agent
from tests.fixtures.agent import a_guest
from tests.fixtures.daemons.process import PATIENCE

ALPHA = NodeName("alpha", "alpha")


def a_fake(directory: Path, **fake: object) -> FakeDriver:
    return FakeDriver(agent.options(directory, fake=fake))


def changed(driver: FakeDriver, **fake: int) -> FakeDriver:
    """Change options as a configuration that is read again does."""
    for name, value in fake.items():
        driver._conf.set_override(name, value, group="fake")
    return driver


def every_guest(driver: FakeDriver) -> dict[NodeName, list[Guest]]:
    return {name: list(driver.guests(name)) for name in driver.nodes()}


def test_one_host_has_the_agents_name(tmp_path: Path) -> None:
    driver = a_fake(tmp_path)
    assert driver.hosts() == ["alpha"]
    assert driver.nodes() == [ALPHA]


def test_several_hosts_are_numbered(tmp_path: Path) -> None:
    driver = a_fake(tmp_path, hosts=3)
    assert driver.hosts() == ["alpha-0001", "alpha-0002", "alpha-0003"]
    assert [name.node for name in driver.nodes()] == driver.hosts()


def test_several_nodes_of_a_host_are_numbered(tmp_path: Path) -> None:
    driver = a_fake(tmp_path, nodes=2)
    assert driver.nodes() == [NodeName("alpha", f"alpha-node-000{each}") for each in (1, 2)]
    driver = a_fake(tmp_path, hosts=2, nodes=2)
    assert [(name.host, name.node) for name in driver.nodes()] == [
        ("alpha-0001", "alpha-0001-node-0001"),
        ("alpha-0001", "alpha-0001-node-0002"),
        ("alpha-0002", "alpha-0002-node-0001"),
        ("alpha-0002", "alpha-0002-node-0002"),
    ]


def test_nodes_come_and_go_with_the_option(tmp_path: Path) -> None:
    driver = a_fake(tmp_path)
    before = driver.facts(ALPHA)
    assert len(changed(driver, nodes=3).nodes()) == 3
    assert changed(driver, nodes=0).nodes() == []
    assert changed(driver, nodes=1).nodes() == [ALPHA]
    assert driver.facts(ALPHA) == before
    assert driver.hosts() == ["alpha"]


def test_all_runs_play_the_same_hosts(tmp_path: Path) -> None:
    options = {"hosts": 2, "nodes": 2, "guests": 5}
    first, second = a_fake(tmp_path, **options), a_fake(tmp_path, **options)
    assert [first.facts(name) for name in first.nodes()] == [
        second.facts(name) for name in second.nodes()
    ]
    assert every_guest(first) == every_guest(second)
    uuids = {first.facts(name).uuid for name in first.nodes()}
    assert len(uuids) == 4


def test_what_does_not_change_is_made_once(tmp_path: Path) -> None:
    driver = a_fake(tmp_path, guests=3)
    assert driver.facts(ALPHA) is driver.facts(ALPHA)
    assert driver.guests(ALPHA) is driver.guests(ALPHA)
    assert driver.nodes()[0] is driver.nodes()[0]


def test_options_are_the_size_of_each(tmp_path: Path) -> None:
    driver = a_fake(tmp_path, vcpus=4, memory_mb=2048, local_gb=50)
    driver.add_guest("alpha", a_guest(root_gb=20, ephemeral_gb=5))
    facts = driver.facts(ALPHA)
    assert (facts.vcpus, facts.memory_mb, facts.local_gb) == (4, 2048, 50)
    assert facts.disk_available_least == 25
    driver.remove_guest("alpha", a_guest().uuid)
    assert driver.facts(ALPHA).disk_available_least == 50


def test_guests_of_the_option_are_different_ones_on_each_node(tmp_path: Path) -> None:
    driver = a_fake(tmp_path, nodes=2, guests=8)
    found = every_guest(driver)
    assert [len(guests) for guests in found.values()] == [8, 8]
    guests = [guest for each in found.values() for guest in each]
    assert len({guest.uuid for guest in guests}) == 16
    assert all(str(UUID(guest.uuid)) == guest.uuid for guest in guests)
    assert len({guest.size for guest in guests}) > 2
    assert {guest.vm_state for guest in guests} == {"active", "stopped"}


def test_guests_come_and_go_with_the_option(tmp_path: Path) -> None:
    driver = a_fake(tmp_path, guests=2)
    driver.add_guest("alpha", a_guest(1))
    first = every_guest(driver)[ALPHA]
    assert [guest.name for guest in first] == ["guest-0001", "guest-0002", "guest1"]
    more = every_guest(changed(driver, guests=3))[ALPHA]
    assert more[:2] == first[:2]
    assert len(more) == 4
    assert every_guest(changed(driver, guests=0))[ALPHA] == [a_guest(1)]


def test_guests_that_come_and_go_are_noted_for_their_node(tmp_path: Path) -> None:
    driver = a_fake(tmp_path, nodes=2)
    name = driver.nodes()[1]
    driver.add_guest(name.node, a_guest(1))
    assert driver.changes.wait(PATIENCE) == {name}
    assert every_guest(driver) == {driver.nodes()[0]: [], name: [a_guest(1)]}
    driver.remove_guest(name.node, a_guest(1).uuid)
    assert driver.changes.wait(PATIENCE) == {name}


def test_cells_share_the_cpus_and_the_memory(tmp_path: Path) -> None:
    assert a_fake(tmp_path).facts(ALPHA).numa is None
    numa = a_fake(tmp_path, numa_cells=3, vcpus=8, memory_mb=1000).facts(ALPHA).numa
    assert numa is not None
    assert [cell.id for cell in numa.cells] == [0, 1, 2]
    assert sorted(cpu for cell in numa.cells for cpu in cell.cpuset) == list(range(8))
    assert sum(cell.memory for cell in numa.cells) == 1000
    for cell in numa.cells:
        assert cell.cpuset == cell.pcpuset == {cpu for core in cell.siblings for cpu in core}
        (pages,) = cell.mempages
        assert pages.size_kb * pages.total == cell.memory * 1024
        assert (cell.cpu_usage, cell.memory_usage, pages.used) == (0, 0, 0)


def test_there_are_no_more_cells_than_cpus(tmp_path: Path) -> None:
    with pytest.raises(DriverMisconfigured, match=r"^\[fake\] numa_cells = 5: .* vcpus = 4$"):
        a_fake(tmp_path, numa_cells=5, vcpus=4)


def test_cpus_get_on_with_their_work(tmp_path: Path) -> None:
    driver = a_fake(tmp_path, vcpus=4)
    counters = [driver.cpu_counters(ALPHA) for _ in range(3)]
    for number, each in enumerate(counters, 1):
        kinds = (each.user, each.kernel, each.idle, each.iowait)
        assert sum(kinds) == number * 4 * 10**9
        assert min(kinds) > 0
        assert each.frequency_mhz > 0
    assert counters[0].user < counters[1].user < counters[2].user
    again = a_fake(tmp_path, vcpus=4)
    assert [again.cpu_counters(ALPHA) for _ in range(3)] == counters


def test_hosts_do_what_operators_want(tmp_path: Path) -> None:
    driver = a_fake(tmp_path, hosts=2)
    first, second = driver.hosts()
    assert driver.power(first) == "on"
    for action, state in {"shutdown": "off", "startup": "on", "reboot": "rebooting"}.items():
        assert driver.act_on_power(first, action) == driver.power(first) == state
        assert driver.power(second) == "on"


@pytest.mark.parametrize(("host", "action"), [("alpha", "explode"), ("beta", "reboot")])
def test_hosts_do_nothing_else(tmp_path: Path, host: str, action: str) -> None:
    with pytest.raises(DriverCannot, match=f"^this driver cannot {action} host {host}$"):
        a_fake(tmp_path).act_on_power(host, action)


def test_one_node_may_fail_and_be_well_again(tmp_path: Path) -> None:
    driver = a_fake(tmp_path, hosts=2)
    first, second = driver.nodes()
    driver.fail("it hangs", first.node)
    for question in (driver.facts, driver.guests, driver.cpu_counters):
        with pytest.raises(DriverUnavailable, match="it hangs"):
            question(first)
        question(second)
    driver.fail(None, first.node)
    driver.facts(first)
    driver.fail("all is lost")
    with pytest.raises(DriverUnavailable, match="all is lost"):
        driver.nodes()
    driver.fail(None)
    assert len(driver.nodes()) == 2


def test_a_closed_fake_answers_nothing(tmp_path: Path) -> None:
    driver = a_fake(tmp_path)
    driver.close()
    driver.fail(None)
    with pytest.raises(DriverUnavailable):
        driver.nodes()
    with pytest.raises(DriverUnavailable):
        driver.act_on_power("alpha", "reboot")
