# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The configuration that running schedulers and agents use, asked from them over RabbitMQ."""

import signal

from inventory.engine import Database
from tests.fixtures.daemons.process import wait_until
from tests.fixtures.deployment import Deployment, wait_for_log

SCHEDULER, AGENT = "nova-scheduler", "nova-compute"
FAKE = {"DEFAULT": {"compute_driver": "fake", "reserved_host_memory_mb": 1024}}


def test_each_process_says_what_it_uses_and_what_has_set_it(
    deployment: Deployment, database: Database
) -> None:
    deployment.scheduler(environment={"OS_CLAIMS__LEASE": "600"}, name="one")
    heavier = {"filter_scheduler": {"ram_weight_multiplier": 2.5, "enabled_filters": "RamFilter"}}
    two = deployment.scheduler("threading", heavier, name="two")
    for options, name in ((FAKE, "compute1"), ({**FAKE, "fake": {"hosts": 2}}, "fleet")):
        agent = deployment.agent(options=options, name=name)
        wait_for_log(agent, "Listening as compute.berthmaster-agent")

    def known() -> bool:
        return len(deployment.cli_json("service", "list")) == 5

    assert wait_until(known)
    asked = deployment.cli("config", "show", "--changed", "-f", "json")
    assert asked.returncode == 0
    assert "no answer" not in asked.stderr
    assert (
        "schedulers differ in [filter_scheduler] ram_weight_multiplier: 1.0 on one; 2.5 on two"
        in asked.stderr
    )
    assert "schedulers differ in [claims] lease: 600 on one; 900 on two" in asked.stderr
    assert "[DEFAULT] host" not in asked.stderr

    def shown(service: str) -> dict[tuple[str, str], tuple[object, str]]:
        rows = deployment.cli_json("config", "show", "--changed", "--service", service)
        return {(row["Group"], row["Option"]): (row["Value"], row["Set By"]) for row in rows}

    one, file = shown(f"{SCHEDULER}/one"), str(deployment.directory / "two.conf")
    assert one["claims", "lease"] == (600, "OS_CLAIMS__LEASE")
    before = shown("two")
    assert before["filter_scheduler", "ram_weight_multiplier"] == (2.5, file)
    value, _ = before["DEFAULT", "transport_url"]
    assert str(value).startswith("rabbit://***@")
    assert shown("compute1")["DEFAULT", "reserved_host_memory_mb"][0] == 1024
    assert shown(f"{AGENT}/fleet")["fake", "hosts"][0] == 2
    assert (
        "did you mean compute1 or" in deployment.cli("config", "show", "--service=compte1").stderr
    )
    everything = deployment.cli("config", "show", "--service", SCHEDULER).stdout
    assert "guest" not in everything.replace("guests", "")

    # A reload that is rejected leaves the plug-ins as they were, whatever the options are.
    wrong = {"filter_scheduler": {"enabled_filters": "RamFilter,NoSuchFilter"}}
    deployment.write_config("two", wrong)
    two.send(signal.SIGHUP)
    wait_for_log(two, "Reload rejected")
    after = shown("two")
    assert after["in use", "filters"] == before["in use", "filters"]
    assert after["filter_scheduler", "enabled_filters"][0] == ["RamFilter", "NoSuchFilter"]
