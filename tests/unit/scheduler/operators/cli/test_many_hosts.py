# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Commands that change several hosts at once, from the command line and from files."""

import io
import json
import sys
from datetime import timedelta
from typing import ClassVar

import pytest
import sqlalchemy as sa

from inventory import aggregates, instances, services, tables
from scheduler.client import agent_client
from scheduler.wire.errors import Unsupported
from tests.databases import a_node, an_instance, save, serve

SWITCHES = [
    ("host disable", "status", "disabled"),
    ("host enable", "status", "enabled"),
    ("host maintenance on", "maintenance_mode", "on"),
    ("host maintenance off", "maintenance_mode", "off"),
    ("service disable", "status", "disabled"),
    ("service enable", "status", "enabled"),
    ("service force-down", "forced_down", True),
]
ALL = [f"h{number}" for number in range(1, 7)]


@pytest.fixture(autouse=True)
def cloud(database, command):
    serve(database, *ALL)
    command.json("aggregate", "create", "rack")
    return database


@pytest.mark.parametrize(("name", "column", "value"), SWITCHES)
def test_switches_of_several_hosts_are_printed_as_a_list(command, name, column, value):
    (one,) = [command.json(*name.split(), "h1")]
    rows = command.json(*name.split(), "h3", "H1", "h1", "h2")
    assert [(row["host"], row[column]) for row in rows] == [
        (host, value) for host in ("h1", "h2", "h3")
    ]
    assert rows[0].keys() == one.keys()
    text = command.run(*name.split(), "h1", "h2", "-c", "host", "-c", column).stdout
    assert text.splitlines()[-1] == "2 hosts."
    assert text.splitlines()[1].split() == ["|", "host", "|", column, "|"]
    assert command.run(*name.split(), "h1", "h2", "-f", "value", "-c", "host").stdout == "h1\nh2\n"


def test_all_hosts_or_none_are_switched(database, command):
    before = database.read(services.all_live)
    refused = command.refused("host", "disable", "h1", "h22", "xyz", "h2", "h33")
    assert refused == (
        "there is no service nova-compute on 3 hosts: 'h22' (did you mean h2?), 'xyz', 'h33' (did"
        " you mean h3?); see 'service list'"
    )
    after = database.read(services.all_live)
    assert [row._replace(now=None) for row in after] == [row._replace(now=None) for row in before]


def silent_for(database, seconds):
    """Let the last heartbeat of all services be long ago."""
    change = sa.update(tables.services)
    for row in database.read(services.all_live):
        seen = row.now - timedelta(seconds=seconds)
        database.write(lambda c, seen=seen: c.execute(change.values(last_seen_up=seen)))


def test_services_and_their_hosts_are_deleted_together_or_not_at_all(database, command):
    save(database, a_node("h1"), a_node("h2"))
    command.json("aggregate", "add", "host", "rack", "h1", "h2", "h3")
    refused = command.refused("service", "delete", "h1", "h2")
    assert refused.startswith(
        "2 hosts cannot be deleted, so none was: nova-compute on h1 was alive"
    )
    assert "; nova-compute on h2 was alive" in refused
    many = [f"n{number}" for number in range(100)]
    serve(database, *many)
    assert command.refused("service", "delete", *many).endswith("; and 80 more")
    silent_for(database, 900)
    database.write(lambda c: instances.replace(c, "h2", "h2", [an_instance("u1")]))
    assert "host h2 is needed by" in command.refused("service", "delete", "h1", "h2")
    database.write(lambda c: instances.replace(c, "h4", "h4", [an_instance("u2")]))
    refused = command.refused("service", "delete", "h1", "h2", "h3", "h4")
    assert refused.startswith("2 hosts cannot be deleted, so none was: host h2 is needed by 0")
    assert "; host h4 is needed by 0 managed instances, 1 guest that" in refused
    database.write(lambda c: instances.replace(c, "h4", "h4", []))
    assert len(database.read(services.all_live)) == len(ALL) + len(many)
    rows = command.json("service", "delete", "H2", "h1", "--forget-guests")
    assert [(row["host"], row["deleted_nodes"]) for row in rows] == [("h1", ["h1"]), ("h2", ["h2"])]
    assert command.json("aggregate", "show", "rack")["hosts"] == ["h3"]
    one = command.json("service", "delete", "h3")
    assert (one["host"], one["deleted_nodes"]) == ("h3", [])


class Agents:
    """A client of agents that obey, but for one."""

    asked: ClassVar[list[tuple[str, str]]] = []

    def __init__(self, conf, is_hasty):
        pass

    def call(self, caller, agent, method, timeout, host, action):
        self.asked.append((agent, host))
        if host == "h3":
            raise Unsupported("the driver cannot")
        return {"host": host, "power_action": action}

    def close(self):
        pass


@pytest.fixture
def agents(monkeypatch):
    monkeypatch.setattr(Agents, "asked", [])
    monkeypatch.setattr(agent_client, "AgentClient", Agents)
    return Agents


def test_agents_are_asked_one_after_the_other_up_to_the_first_failure(command, agents):
    rows = command.json("host", "power", "h2", "h1", "reboot")
    assert [(row["host"], row["power_action"]) for row in rows] == [
        ("h2", "reboot"),
        ("h1", "reboot"),
    ]
    refused = command.refused("host", "power", "--agent=fleet", "h1", "h3", "h2", "h4", "reboot")
    assert refused == (
        "h3: Not supported: the driver cannot; hosts done before: h1; hosts not asked: h2, h4"
    )
    assert agents.asked[2:] == [("fleet", "h1"), ("fleet", "h3")]
    assert command.refused("host", "power", "h3", "reboot") == "Not supported: the driver cannot"


def test_hosts_join_and_leave_an_aggregate_together(command, tmp_path):
    file = tmp_path / "hosts"
    file.write_text("\ufeffh1\r\n\r\n  # of the first rack\n h2 # new\nH1\nh3")
    shown = command.json("aggregate", "add", "host", "rack", "h4", "--from", str(file))
    assert (shown["hosts"], shown["hosts_added"]) == (["h1", "h2", "h3", "h4"], 4)
    shown = command.json("aggregate", "remove", "host", "rack", "h1", "H2", "h2")
    assert (shown["hosts"], shown["hosts_removed"]) == (["h3", "h4"], 2)
    assert "hosts_removed" not in command.json("aggregate", "remove", "host", "rack", "h3")


def test_standard_input_names_hosts(command, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("\ufeffh1\n# h2\nh3\n"))
    assert [row["host"] for row in command.json("host", "disable", "--from=-")] == ["h1", "h3"]


def test_what_a_program_prints_does_not_depend_on_how_many_lines_its_file_has(command, tmp_path):
    file = tmp_path / "hosts"
    file.write_text("h1\n")
    assert [row["host"] for row in command.json("host", "enable", "--from", str(file))] == ["h1"]


def test_options_may_be_before_between_and_after_hosts(command):
    rows = command.json("host", "disable", "--reason", "fans", "h1", "--max-width=80", "h2")
    assert [row["disabled_reason"] for row in rows] == ["fans", "fans"]
    shown = command.json("aggregate", "add", "host", "rack", "--with-instances", "h1", "h2")
    assert shown["hosts"] == ["h1", "h2"]


@pytest.mark.parametrize(
    ("arguments", "status", "output"),
    [
        (["aggregate", "add", "host", "rack", "h6", "h66", "zz"], 1,
         "on 2 hosts: 'h66' (did you mean h6?), 'zz': start berthmaster-agent"),
        (["aggregate", "add", "host", "rack", "h1", "h2", "h6"], 1,
         "hosts h1, h2 are in aggregate rack already"),
        (["aggregate", "remove", "host", "rack", "h1", "h22", "h4"], 1,
         "aggregate rack, which has h1, h2, lacks 2 hosts: 'h22' (did you mean h2?), 'h4'"),
        (["aggregate", "add", "host", "rack"], 2, "no host is given: name hosts, or give a file"),
        (["host", "disable"], 2, "no host is given"),
        (["host", "disable", "--from=/nowhere/at/all"], 1,
         "cannot read /nowhere/at/all: No such file or directory"),
        (["host", "disable", "h1", "h2", "-f", "shell"], 1, "-f shell is for one host"),
        (["service", "disable", "h1", "h2", "--binary=nova-scheduler"], 1,
         "no service nova-scheduler on 2 hosts: 'h1', 'h2'"),
    ],
)  # fmt: skip
def test_refusals_change_nothing(database, command, arguments, status, output):
    command.json("aggregate", "add", "host", "rack", "h1", "h2")
    before = database.read(aggregates.everything)
    assert output in command.refused(*arguments, status=status)
    assert database.read(aggregates.everything) == before
    assert not any(row.disabled for row in database.read(services.all_live))


@pytest.mark.parametrize(
    ("content", "output"),
    [(b"# none\n\n", "contains no name of a host"), (b"h\xff\xfe", "it is not text in UTF-8")],
)
def test_files_without_hosts(command, tmp_path, content, output):
    (tmp_path / "hosts").write_bytes(content)
    assert output in command.refused("host", "enable", f"--from={tmp_path}/hosts")


def test_a_long_file_of_unknown_hosts_is_refused_in_a_few_lines(command, tmp_path):
    file = tmp_path / "hosts"
    file.write_text("\n".join(f"node-{number}" for number in range(2000)))
    refused = command.refused("host", "disable", f"--from={file}")
    assert "2000 hosts: 'node-0', 'node-1', " in refused
    assert "and 1980 more" in refused
    assert len(refused) < 500


def test_a_script_reads_one_host_as_an_object(command):
    done = command.run("host", "disable", "h1", "-f", "json")
    assert json.loads(done.stdout)["host"] == "h1"
    assert "host=h1\n" in command.run("host", "disable", "h1", "-f", "shell").stdout
