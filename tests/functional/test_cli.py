# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The operator's command against real services."""

import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from inventory import aggregates, instances, server_groups
from inventory.engine import Database
from inventory.objects.node_json import numa_topology_to_json, pci_pools_to_json
from tests.devices import a_pool
from tests.fixtures.command import Command
from tests.fixtures.daemons.process import PATIENCE
from tests.fixtures.deployment import Deployment, a_fleet
from tests.numa import a_topology

# On a machine without any.
NO_CONFIGURATION = re.compile("^berthmaster: there is no configuration file, so the defaults .*\n")
AT_ONCE = re.compile(
    r"8 callers ask at once for (\d+) MB each.*?\n(\d+) get a host, (\d+) are refused\."
    r" Free afterwards: (.*)\."
)


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
    error, hint = too_many.stderr.splitlines()
    assert error == "No valid host was found. There are not enough hosts available."
    assert re.fullmatch(
        "'berthmaster --config-file=[^ ]+ explain req-[0-9a-f-]{36}' says why", hint
    )


def test_wrong_use_is_an_error_and_ends_with_a_status(deployment: Deployment) -> None:
    for arguments, status, error in (
        (["select", "--hint", "novalue"], 2, "is not of the form KEY=VALUE"),
        (["select", "--vcpus", "many"], 2, "'many' is not a whole number"),
        (["select", "--num-instances", "0"], 2, "'0' is not a whole number"),
        (["select", "--timeout", "1"], 1, "check that berthmaster-scheduler runs"),
        (["host", "show", "nowhere"], 1, "host 'nowhere' has no compute node"),
        (["--config-file", "/nowhere.conf", "host", "list"], 1, "/nowhere.conf"),
        (["host", "describe", "nowhere"], 1, "host 'nowhere' has no compute node"),
        (["host", "disable", "nowhere"], 1, "no service nova-compute on a host 'nowhere'"),
        (["host", "power", "nowhere", "explode"], 2, "invalid choice: 'explode'"),
        (["host", "power", "nowhere", "reboot", "--timeout", "1"], 1, "there is no host 'nowhere'"),
        (["host", "power", "nowhere", "reboot", "--timeout", "nan"], 2, "'nan' is not a number"),
        (["select", "--timeout", "-1"], 2, "'-1' is not a number of seconds"),
        (["hypervisor", "show", "nowhere"], 1, "there is no hypervisor 'nowhere'"),
        (["service", "force-down", "nowhere", "--unset"], 1, "there is no service"),
    ):
        done = deployment.cli(*arguments)
        assert done.returncode == status, done.stderr
        assert error in done.stderr
        assert "Traceback" not in done.stderr


def test_hosts_and_services_are_listed(deployment: Deployment, database: Database) -> None:
    command = Command(deployment.config)
    a_fleet(database, ["compute1"])
    deployment.scheduler(name="controller")
    (host,) = command.json("host", "list")
    assert (host["Host"], host["Status"], host["State"]) == ("compute1", "enabled", "up")
    shown = command.json("host", "show", "compute1")
    assert shown["supported_instances"][0] == ["x86_64", "kvm", "hvm"]
    found = {row["Host"]: row for row in command.json("service", "list")}
    assert found["compute1"]["Binary"] == "nova-compute"
    assert found["controller"]["Binary"] == "nova-scheduler"
    assert found["controller"]["Zone"] == "internal"
    assert {row["State"] for row in found.values()} == {"up"}


def test_a_host_is_described_by_project(deployment: Deployment, database: Database) -> None:
    command = Command(deployment.config)
    a_fleet(database, ["compute1"])
    sizes = {"vcpus": 2, "memory_mb": 2048, "root_gb": 10, "ephemeral_gb": 5}
    seen = [{"uuid": uuid, "project_id": project, **sizes} for uuid, project in ("ap", "bp", "cq")]
    database.write(lambda c: instances.replace(c, "compute1", "compute1", seen))
    rows = command.json("host", "describe", "compute1")
    assert [tuple(row.values()) for row in rows] == [
        ("compute1", "(total)", 32, 65536, 1000),
        ("compute1", "(used_now)", 0, 512, 0),
        ("compute1", "(used_max)", 6, 6144, 45),
        ("compute1", "p", 4, 4096, 30),
        ("compute1", "q", 2, 2048, 15),
    ]
    assert list(rows[0]) == ["HOST", "PROJECT", "cpu", "memory_mb", "disk_gb"]
    servers = command.json("hypervisor", "servers", "compute1")
    assert [row["ID"] for row in servers] == ["a", "b", "c"]


def test_hypervisors_are_listed_shown_and_added_up(
    deployment: Deployment, database: Database
) -> None:
    command = Command(deployment.config)
    a_fleet(database, ["rack_1", "rack%2"])
    found = {row["Hypervisor Hostname"]: row for row in command.json("hypervisor", "list")}
    assert {(row["State"], row["Status"]) for row in found.values()} == {("up", "enabled")}
    (only,) = command.json("hypervisor", "list", "--matching", "%")
    assert only["Hypervisor Hostname"] == "rack%2"
    shown = command.json("hypervisor", "show", str(only["ID"]))
    assert (shown["hypervisor_hostname"], shown["cpu_info"]) == ("rack%2", {})
    assert shown["service"]["host"] == "rack%2"
    assert command.json("hypervisor", "stats")["vcpus"] == 64
    command.json("host", "disable", "rack_1")
    stats = command.json("hypervisor", "stats")
    assert (stats["count"], stats["vcpus"], stats["current_workload"]) == (1, 32, 0)
    unknown = deployment.cli("hypervisor", "uptime", "rack_1", "--timeout", "0.5")
    assert unknown.returncode == 1
    assert "the driver of rack_1 does not report the boot time of its host" in unknown.stderr


def test_a_hypervisor_may_be_called_as_the_id_of_another_one(
    deployment: Deployment, database: Database
) -> None:
    command = Command(deployment.config)
    a_fleet(database, ["compute1"], stats='{"booted": "1000"}')
    (found,) = command.json("hypervisor", "list")
    a_fleet(database, [str(found["ID"])], stats='{"booted": "2000"}')
    shown = deployment.cli_json("hypervisor", "uptime", "compute1", "--timeout", "0.5")
    assert shown["hypervisor_hostname"] == "compute1"


def test_the_letter_case_of_a_host_does_not_hide_its_service(
    deployment: Deployment, database: Database
) -> None:
    command = Command(deployment.config)
    a_fleet(database, ["compute1"])
    shown = command.json("host", "show", "COMPUTE1")
    assert (shown["host"], shown["status"], shown["state"]) == ("compute1", "enabled", "up")


def test_services_are_switched_and_deleted(deployment: Deployment, database: Database) -> None:
    command = Command(deployment.config)
    a_fleet(database, ["compute1", "compute2"])
    shown = command.json("service", "disable", "compute1", "--reason", "new lamp")
    assert (shown["status"], shown["disabled_reason"], shown["note"]) == (
        "disabled",
        "new lamp",
        "",
    )
    listed = command.json("host", "list", "--zone", "nova")
    assert {row["Host"]: row["Status"] for row in listed} == {
        "compute1": "disabled",
        "compute2": "enabled",
    }
    assert command.json("service", "enable", "COMPUTE1")["disabled_reason"] is None
    assert command.json("service", "force-down", "compute1")["forced_down"] is True
    (row,) = command.json("service", "list", "--host", "compute1")
    assert (row["State"], row["Forced Down"]) == ("down", True)
    assert command.json("service", "force-down", "compute1", "--unset")["status"]
    for arguments, error in (
        (["disable", "compute1", "--reason", "x" * 300], "reason: has 300 characters, at most 255"),
        (["disable", "compute1", "--reason", "AUTO: no"], "reason: 'AUTO: ' begins the reasons"),
        (["delete", "compute1"], "would register again: stop it"),
    ):
        refused = deployment.cli("service", *arguments)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert error in refused.stderr
    database.write(lambda c: c.execute(sa.text(LONG_SILENT)))
    assert command.json("service", "delete", "compute1")["deleted_nodes"] == ["compute1"]
    assert [row["Host"] for row in command.json("host", "list")] == ["compute2"]


LONG_SILENT = "UPDATE services SET last_seen_up = '2020-01-01 00:00:00' WHERE host = 'compute1'"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("host maintenance on", "Their agents go on reporting"),
        ("host power", "allow_host_power_actions"),
        ("hypervisor uptime", "The agent of the host is asked"),
        ("service force-down", "--unset"),
    ],
)
def test_help_says_what_a_command_does(warm_command: Path, words: str, text: str) -> None:
    done = subprocess.run(
        [warm_command, *words.split(), "--help"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert text in " ".join(done.stdout.split())


def test_the_schema_is_synced_once_and_its_version_shown(deployment: Deployment) -> None:
    again = deployment.cli("db", "sync")
    assert "already" in again.stdout
    assert "berthmaster:***@" in again.stdout
    assert deployment.cli("db", "version").stdout.strip() == "0018"


def test_the_demonstration_is_believable_and_short() -> None:
    program = str(Path(sys.executable).parent / "berthmaster")

    def run(*words: str) -> str:
        command = [program, *words]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert (done.returncode, NO_CONFIGURATION.sub("", done.stderr)) == (0, "")
        return done.stdout

    shown = run("demo")
    for part in (
        "Berthmaster decides which host",
        "highest weight wins",
        "together book nothing twice",
        "MB of memory, the host has only",
        "No valid host was found.",
        "It would fit with",
    ):
        assert part in shown
    lines = shown.splitlines()
    assert len(lines) <= 27
    # Reasons have names of hosts and commands the path of this program; cells of tables are broken.
    assert [each for each in lines if len(each) > 80 and each[0] not in " +|"] == []
    # Host and type, then numbers, of which the weight is the fourth.
    rows = re.findall(r"^\| \S+ +\| (?:fake|TEST|QEMU) +\|([ \d.|]+)\|$", shown, re.MULTILINE)
    assert len(rows) == 3
    figures = [[float(each) for each in row.split("|")] for row in rows]
    assert sum(new for _, _, _, _, new, _ in figures) == 3
    for _, total, before, _, new, after in figures:
        assert 0 <= after <= before <= total
        assert before - after == 2048 * new
    at_once = AT_ONCE.search(shown)
    assert at_once is not None
    size, placed, refused = map(int, at_once.groups()[:3])
    left = [int(each.removesuffix(" MB")) for each in at_once[4].split(", ")]
    free = sum(after for *_, after in figures)
    assert (placed > 0, refused > 0, placed + refused) == (True, True, 8)
    assert sum(left) == free - size * placed
    assert all(0 <= each < size for each in left)
    simulate, demo, check = (line.split() for line in lines[-3:])
    assert [simulate[0], demo[0], check[0]] == [program] * 3
    run(*simulate[1:])
    # A hypervisor and a cloud, which these two need, are not here.
    assert demo[-2] in run(*demo[1:-2], "--help")
    assert "Nova" in run(*check[-2:], "--help")


def test_claims_are_listed_and_given_back(deployment: Deployment, database: Database) -> None:
    a_fleet(database, ["compute1"])
    deployment.scheduler()
    (kept,) = deployment.cli_json("select", "--vcpus=3", "--memory-mb=1024", "--keep")
    # What nobody is going to build is given back at once.
    deployment.cli_json("select")
    (row,) = deployment.cli_json("claim", "list", "--host=compute1")
    assert (row["Instance"], row["State"], row["vCPUs"]) == (kept["Instance"], "pending", 3)
    assert deployment.cli_json("claim", "list", "--host=scheduler1") == []
    (gone,) = deployment.cli_json("claim", "release", kept["Instance"])
    assert gone == row
    assert deployment.cli_json("claim", "list", "--all") == []
    (host,) = deployment.cli_json("host", "list")
    assert host["vCPUs Used"] == 0
    unknown = deployment.cli("claim", "release", kept["Instance"])
    assert unknown.returncode == 1
    assert unknown.stderr == (f"instance '{kept['Instance']}' has no claim; see 'claim list'\n")


def test_select_asks_for_cells_and_devices_as_capacity_does(
    deployment: Deployment, database: Database
) -> None:
    """By extra specs alone, which a scheduler does not read: callers work the cells out."""
    a_fleet(database, ["plain"])
    cells = numa_topology_to_json(a_topology())
    devices = pci_pools_to_json([a_pool(3)])
    a_fleet(database, ["rich"], numa_topology=cells, pci_stats=devices)
    filters = "ComputeFilter,RamFilter,CoreFilter,DiskFilter,NUMATopologyFilter"
    options = {
        "filter_scheduler": {"enabled_filters": f"{filters},PciPassthroughFilter"},
        # The claims of one command are released when the next one asks.
        "scheduler": {"view_max_age": 0},
    }
    deployment.config = deployment.write_config("berthmaster", options)
    deployment.scheduler(options=options)
    for asked, why in (
        (["--extra-spec=hw:numa_nodes=2"], "NUMATopologyFilter"),
        (["--extra-spec=hw:cpu_policy=dedicated"], "NUMATopologyFilter"),
        (["--pci-device=8086:1520:2"], "PciPassthroughFilter"),
    ):
        size = ["--vcpus=2", "--memory-mb=1024"]
        (row,) = deployment.cli_json("select", *size, *asked)
        assert row["Host"] == "rich"
        explained = deployment.cli_json("select", "--dry-run", *size, *asked)["explanation"]
        assert (explained["chosen"], [*explained["reasons"]]) == ("rich", [why])
        (counted,) = deployment.cli_json("capacity", "--flavor=2,1024,0", *asked)["flavors"]
        (full,) = (each["host"] for each in counted["hosts"] if not each["instances"])
        assert full == "plain"


def test_a_command_gives_up_on_a_database_that_says_nothing(deployment: Deployment) -> None:
    """Soon, with a word on what it waits for, where daemons wait for minutes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = f"127.0.0.1:{server.getsockname()[1]}"
        config = deployment.directory / "silent.conf"
        config.write_text(f"[database]\nconnection = mysql+pymysql://me:secret@{place}/bm\n")
        command = [Path(sys.executable).parent / "berthmaster", f"--config-file={config}"]
        with subprocess.Popen(
            [*command, "host", "list"], stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stderr is not None
            assert process.stderr.readline() == f"waiting for the database at {place} ...\n"
            rest = process.stderr.read()
            assert process.wait(PATIENCE) == 1
    assert rest.startswith(f"the database is not available: no answer from {place} within 10 s; ")
    assert rest.count("\n") == 1
