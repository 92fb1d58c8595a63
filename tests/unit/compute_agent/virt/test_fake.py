# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The fake driver plays the hosts that its options describe."""

from pathlib import Path

import pytest

from compute_agent.virt.driver import DriverUnavailable
from compute_agent.virt.fake import FakeDriver
from tests.fixtures import agent
from tests.fixtures.agent import a_guest


def a_fake(directory: Path, **fake: object) -> FakeDriver:
    return FakeDriver(agent.options(directory, fake=fake))


def test_one_host_has_the_agents_name(tmp_path: Path) -> None:
    assert a_fake(tmp_path).hosts() == ["alpha"]


def test_several_hosts_are_numbered(tmp_path: Path) -> None:
    driver = a_fake(tmp_path, hosts=3)
    assert driver.hosts() == ["alpha-0001", "alpha-0002", "alpha-0003"]
    assert [name.node for name in driver.nodes()] == driver.hosts()


def test_all_runs_play_the_same_hosts(tmp_path: Path) -> None:
    first, second = a_fake(tmp_path, hosts=2), a_fake(tmp_path, hosts=2)
    assert [first.facts(name) for name in first.nodes()] == [
        second.facts(name) for name in second.nodes()
    ]
    uuids = {first.facts(name).uuid for name in first.nodes()}
    assert len(uuids) == 2


def test_options_are_the_size_of_each(tmp_path: Path) -> None:
    driver = a_fake(tmp_path, vcpus=4, memory_mb=2048, local_gb=50)
    (name,) = driver.nodes()
    driver.add_guest("alpha", a_guest(root_gb=20))
    facts = driver.facts(name)
    assert (facts.vcpus, facts.memory_mb, facts.local_gb) == (4, 2048, 50)
    assert facts.disk_available_least == 30


def test_a_closed_fake_answers_nothing(tmp_path: Path) -> None:
    driver = a_fake(tmp_path)
    driver.close()
    with pytest.raises(DriverUnavailable):
        driver.nodes()
