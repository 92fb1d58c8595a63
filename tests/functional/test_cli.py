# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The operator's command against real services."""

import subprocess
import sys
from pathlib import Path

from inventory import aggregates, server_groups
from inventory.engine import Database
from tests.fixtures.deployment import Deployment, a_fleet


def test_select_asks_a_scheduler_over_rpc(deployment: Deployment, database: Database) -> None:
    a_fleet(database, ["compute1", "compute2", "compute3"])
    deployment.scheduler()
    rows = deployment.cli_json(
        "select", "--vcpus=2", "--memory-mb=2048", "--disk-gb=10", "--num-instances=3"
    )
    assert sorted(row["Host"] for row in rows) == ["compute1", "compute2", "compute3"]
    assert all(row["Limits"] == {"vcpu": 128, "memory_mb": 65536, "disk_gb": 1000} for row in rows)
    assert len({row["Instance"] for row in rows}) == 3
    table = deployment.cli("select", "--alternates")
    assert table.stdout.startswith("+--")
    value = deployment.cli("select", "-f", "value", "-c", "Host", "--force-host", "COMPUTE2")
    assert value.stdout == "compute2\n"


def test_select_honours_zones_and_server_groups(deployment: Deployment, database: Database) -> None:
    a_fleet(database, ["compute1", "compute2", "compute3"])
    database.write(
        lambda c: aggregates.create(c, "north", ["compute3"], {"availability_zone": "north"})
    )
    apart = database.write(lambda c: server_groups.create(c, "apart", "anti-affinity", {}, []))
    deployment.scheduler()
    (row,) = deployment.cli_json("select", "--availability-zone=north")
    assert (row["Host"], row["Availability Zone"]) == ("compute3", "north")
    rows = deployment.cli_json("select", f"--hint=group={apart}", "--num-instances=3")
    assert len({row["Host"] for row in rows}) == 3
    too_many = deployment.cli("select", f"--hint=group={apart}", "--num-instances=4")
    assert too_many.returncode == 1
    assert too_many.stderr == ("No valid host was found. There are not enough hosts available.\n")


def test_wrong_use_is_told_and_ends_with_a_status(deployment: Deployment) -> None:
    for arguments, status, told in (
        (["select", "--hint", "novalue"], 2, "is not of the form KEY=VALUE"),
        (["select", "--vcpus", "many"], 2, "invalid int value"),
        (["select", "--num-instances", "0"], 1, "must be at least 1"),
        (["select", "--timeout", "1"], 1, "is berthmaster-scheduler running"),
        (["host", "show", "nowhere"], 1, "no compute node of host 'nowhere' has reported yet"),
        (["--config-file", "/nowhere.conf", "host", "list"], 1, "/nowhere.conf"),
    ):
        done = deployment.cli(*arguments)
        assert done.returncode == status, done.stderr
        assert told in done.stderr
        assert "Traceback" not in done.stderr


def test_hosts_and_services_are_listed(deployment: Deployment, database: Database) -> None:
    a_fleet(database, ["compute1"])
    deployment.scheduler(name="controller")
    (host,) = deployment.cli_json("host", "list")
    assert (host["Host"], host["Status"], host["State"]) == ("compute1", "enabled", "up")
    shown = deployment.cli_json("host", "show", "compute1")
    assert shown["supported_instances"][0] == ["x86_64", "kvm", "hvm"]
    found = {row["Host"]: row for row in deployment.cli_json("service", "list")}
    assert found["compute1"]["Binary"] == "nova-compute"
    assert found["controller"]["Binary"] == "nova-scheduler"
    assert found["controller"]["Zone"] == "internal"
    assert {row["State"] for row in found.values()} == {"up"}


def test_the_schema_is_synced_once_and_its_version_shown(deployment: Deployment) -> None:
    again = deployment.cli("db", "sync")
    assert "already" in again.stdout
    assert "berthmaster:***@" in again.stdout
    assert deployment.cli("db", "version").stdout.strip() == "0003"


def test_the_demonstration_places_and_refuses() -> None:
    command = [Path(sys.executable).parent / "berthmaster", "demo"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    for part in (
        "as their agents see them",
        "RamFilter",
        "RAMWeigher",
        "The answer that the caller got over RPC",
        "A request that cannot fit",
        "MB of memory, the host has only",
        "NoValidHost: No valid host was found.",
    ):
        assert part in done.stdout
    assert done.stderr == ""
