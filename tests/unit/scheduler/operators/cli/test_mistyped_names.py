# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A name that is not connected to the message broker: each command says which name is like it."""

import pytest

from inventory import server_groups
from scheduler.client import agent_client
from scheduler.wire.errors import NoAnswer
from tests.databases import a_node, execute, save, serve
from tests.unit.scheduler.operators.cli.test_plan import claim


@pytest.fixture
def cloud(database):
    save(database, a_node("compute1"), a_node("compute2"))
    serve(database, "compute1", "compute2")
    database.write(lambda c: server_groups.create(c, "databases", "anti-affinity", {}, []))
    return database


@pytest.mark.parametrize(
    "command_line",
    [
        ["host", "show", "compte1"],
        ["host", "describe", "compte1"],
        ["host", "disable", "compte1"],
        ["service", "show", "compte1"],
        ["service", "delete", "compte1"],
        ["hypervisor", "show", "compte1"],
        ["plan", "drain", "compte1"],
        ["failover", "simulate", "compte1"],
        ["aggregate", "add", "host", "rack", "compte1"],
    ],
)
def test_a_host(command, cloud, command_line):
    command.json("aggregate", "create", "rack")
    assert "did you mean compute1 or compute2?" in command.refused(*command_line)


@pytest.mark.parametrize(
    ("command_line", "name"),
    [
        (["server", "group", "show", "database"], "databases"),
        (["host", "list", "-c", "Hots"], "Host"),
        (["host", "list", "--sort-column", "Zome"], "Zone"),
        (
            ["host", "list", "-c", "Host", "--sort-column", "vCPUs Use"],
            "vCPUs Used, vCPUs % or vCPUs",
        ),
    ],
)
def test_something_else(command, cloud, command_line, name):
    assert f"did you mean {name}?" in command.refused(*command_line)


def test_letter_case_counts_for_zones_and_reservations_alone(command, cloud):
    command.json("aggregate", "create", "rack", "--zone", "north")
    for line in ("host show COMPUTE1", "hypervisor show COMPUTE1", "aggregate show RACK"):
        assert command.json(*line.split())
    assert command.json("server", "group", "show", "DATABASES")["name"] == "databases"
    assert command.json("host", "list", "--zone", "nova")
    assert "did you mean nova?" in command.refused("host", "list", "--zone", "NOVA")
    place = ("--flavor=1,1,0", "--number=1", "--project=p", "--until=1d")
    command.json("reservation", "create", "r1", *place)
    assert "did you mean r1?" in command.refused("reservation", "show", "R1")


def test_a_column_like_no_other(command, cloud):
    for option, purpose in (("-c", "show"), ("--sort-column", "sort by")):
        refused = command.refused("host", "list", option, "")
        assert refused.startswith(f"there is no column '' to {purpose}; the columns are Host, ")


def test_a_command(command):
    assert "there is no command 'hst list'; did you mean host list" in (
        command.run("help", "hst", "list").stderr
    )


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("host lsit", "did you mean host list"),
        ("hots list --long", "did you mean host list"),
        ("host shw compute1 -f json", "did you mean host show"),
        ("vm list", "did you mean instance list?"),
        ("server list", "did you mean instance list?"),
        ("server show web", "did you mean instance show?"),
        ("az list", "did you mean availability zone list?"),
        ("plan drian h1", "did you mean plan drain"),
        ("host", "'host' is followed by one of describe, disable, enable, list, maintenance off"),
        ("xyzzy", "'berthmaster --config-file="),
    ],
)
def test_a_whole_command(command, line, hint):
    status, out, err = command.run(*line.split())
    assert (status, out) == (2, "")
    assert err.startswith("there is no command ")
    assert hint in err


@pytest.mark.parametrize("option", ["enabled_filters", "weight_classes"])
def test_a_plug_in(command, cloud, option):
    name = {"enabled_filters": "RamFilter", "weight_classes": "RAMWeigher"}[option]
    text = command.config.read_text()
    command.config.write_text(f"{text}[filter_scheduler]\n{option} = {name[:-2]}r\n")
    refused = command.refused("capacity", "--flavor=1,512,1")
    assert f"unknown (did you mean {name}?); installed are " in refused


def test_hints_name_the_cloud_again(command, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "berthmaster").mkdir()
    (tmp_path / "berthmaster" / "clouds.conf").write_text(f"[lab]\nconfig_file={command.config}\n")
    assert f"'berthmaster {command.options[0]} help' lists" in command.run("xyzzy").stderr
    command.options = ["--cloud", "lab"]
    assert "'berthmaster --cloud=lab help' lists" in command.run("xyzzy").stderr
    command.options = []
    monkeypatch.setenv("BERTHMASTER_CLOUD", "lab")
    assert "'berthmaster help' lists" in command.run("xyzzy").stderr


def test_a_deleted_service_says_which_claims_it_drops(command, cloud):
    pending = {"slot": 0, "state": "pending", "compute_node_id": 1}
    claim(cloud, "new", "compute1", **pending)
    claim(cloud, "other", "compute2", **pending | {"compute_node_id": 2})
    execute(cloud, "UPDATE services SET last_seen_up = '2020-01-01 00:00:00'")
    found = command.json("service", "delete", "compute1")
    assert found["dropped_pending_claims"] == ["new"]


def test_an_instance_with_a_claim(command, cloud):
    uuid = "0d5f3c1e-8a51-4d0c-9a3b-6f1f6f1b2c3d"
    claim(cloud, uuid, "compute1", slot=0, state="pending", compute_node_id=1)
    refused = command.refused("claim", "release", uuid.replace("8a51", "8a15"))
    assert f"did you mean {uuid}?" in refused
    other = "7b1e9a44-1c2d-4e5f-8a9b-0c1d2e3f4a5b"
    assert "has no claim; see 'claim list'" in command.refused("claim", "release", other)


class SilentAgents:
    """A client whose agents do not answer; tests/functional/test_cli.py has real ones."""

    def __init__(self, conf, is_hasty):
        pass

    def call(self, *arguments, **named):
        raise self.no_answer(0)

    def no_answer(self, timeout):
        return NoAnswer("no answer")

    def close(self):
        pass


def test_the_host_of_an_agent(command, cloud, monkeypatch):
    monkeypatch.setattr(agent_client, "AgentClient", SilentAgents)
    refused = command.refused("host", "power", "compte1", "reboot")
    assert refused == "there is no host 'compte1'; did you mean compute1 or compute2?"
    refused = command.refused("host", "power", "compute1", "reboot")
    hint = "If an agent with another name reports host compute1, name that agent with --agent."
    assert refused == f"Service is unavailable at this time. no answer {hint}"


@pytest.mark.parametrize(
    "command_line",
    [
        ["capacity", "--flavor=1,1,1", "--project="],
        ["capacity", "--flavor=1,1,1", "--pci-device=8086:1572:"],
        ["capacity", "--flavor=1,,1"],
        ["simulate", "--hosts=1:2,2048,10", "--flavors=1:512,"],
        ["decision", "list", "--project="],
        ["decision", "list", "--request= "],
    ],
)
def test_an_empty_value_or_part_of_one(command, cloud, command_line):
    option = command_line[-1].split("=")[0]
    assert f"error: argument {option}: " in command.refused(*command_line, status=2)
