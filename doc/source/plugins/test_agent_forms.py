# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The tests of the examples of the plug-in author's guide that run in an agent."""

import json
from types import SimpleNamespace

import pytest
from agent_forms import ApplianceDriver, LoadMonitor

from compute_agent.virt.driver import DriverUnavailable, NodeName

HOST = {
    "vcpus": 8,
    "memory_mb": 16384,
    "local_gb": 100,
    "hypervisor_type": "appliance",
    "hypervisor_version": 1,
}
GUEST = {
    "uuid": "0f5b9a6e-6c5e-4f3b-9a57-3f6f8c9f7a01",
    "name": "web",
    "vcpus": 2,
    "memory_mb": 2048,
}
NODE = NodeName("appliance1", "appliance1")


@pytest.fixture
def driver(tmp_path):
    return ApplianceDriver(SimpleNamespace(host="appliance1", state_path=tmp_path))


def test_tells_of_the_machine_and_its_guests(driver, tmp_path):
    (tmp_path / "appliance.json").write_text(json.dumps({"host": HOST, "guests": [GUEST]}))
    assert driver.nodes() == [NODE]
    assert driver.facts(NODE).memory_mb == 16384
    (guest,) = driver.guests(NODE)
    assert guest.size.memory_mb + driver.overhead(guest).memory_mb == 2112


def test_a_machine_that_says_nothing_is_unavailable(driver):
    with pytest.raises(DriverUnavailable, match=r"appliance\.json"):
        driver.facts(NODE)


def test_measures_the_load(driver):
    (metric,) = LoadMonitor(None, driver).metrics(NODE)
    assert metric.name == "load.one"
    assert metric.value >= 0
