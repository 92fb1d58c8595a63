# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The commands that look at hosts and services, and switch them."""

import pytest

from inventory import aggregates, compute_nodes, services
from tests.databases import a_node, execute, serve


@pytest.fixture
def hosts(database):
    """Two hosts that have reported, one of them with two nodes, and a scheduler."""
    serve(database, "h1", "h2")
    database.write(lambda c: services.register(c, ["controller"], services.SCHEDULER, 1))
    nodes = [a_node("h1"), a_node("h2", "n1"), a_node("h2", "n2")]
    database.write(lambda c: compute_nodes.save(c, nodes))


def test_a_host_is_switched_off_and_on(command, hosts):
    def state():
        row, *_ = command.json("host", "list")
        shown = command.json("host", "show", "H1")
        assert (shown["status"], shown["state"]) == (row["Status"], row["State"])
        return row["State"]

    assert state() == "up"
    shown = command.json("host", "disable", "h1", "--reason", "new fans")
    assert (shown["status"], shown["disabled_reason"]) == ("disabled", "new fans")
    command.json("host", "maintenance", "on", "h1", "--reason", "firmware")
    assert command.json("host", "enable", "h1")["note"].startswith("still in maintenance")
    assert state() == "maintenance"
    assert command.json("host", "maintenance", "off", "h1")["note"] == ""
    assert state() == "up"


def test_a_host_says_since_when_it_is_off_and_who_did_it(database, command, hosts):
    def run(name, *options):
        execute(database, "UPDATE audit_log SET changed_at = '2026-01-01 00:00:00'")
        command.json(f"--operator={name}", *options)
        shown = command.json("host", "show", "h1")
        for what in ("disabled", "forced_down"):
            since, by = shown[f"{what}_since"], shown[f"{what}_by"]
            assert bool(since) == bool(by)
            yield by and (by, "before" if since == "2026-01-01 00:00:00" else "now")

    assert [*run("alice", "host", "disable", "h1")] == [("alice", "now"), None]
    assert command.json("host", "show", "h1")["disabled_reason"] is None
    # Another reason, and what is no switch, change nothing of it.
    assert [*run("bob", "host", "disable", "h1", "--reason=fans")] == [("alice", "before"), None]
    forced = [*run("bob", "service", "force-down", "h1")]
    assert forced == [("alice", "before"), ("bob", "now")]
    maintained = [*run("dora", "host", "maintenance", "on", "h1")]
    assert maintained == [("dora", "now"), ("bob", "before")]
    command.json("service", "force-down", "h1", "--unset")
    assert [*run("dora", "host", "maintenance", "off", "h1")] == [("alice", "before"), None]
    assert [*run("dora", "host", "enable", "h1")] == [None, None]
    # Nobody logs this.
    execute(database, "UPDATE services SET disabled = 1 WHERE host = 'h1'")
    assert command.json("host", "show", "h1")["disabled_by"] is None


def test_one_of_several_nodes_is_shown(command, hosts):
    refused = command.refused("host", "show", "h2")
    assert refused == "node: host h2 has several nodes, n1, n2: choose one with --node"
    assert command.json("host", "show", "h2", "--node", "n2")["hypervisor_hostname"] == "n2"
    refused = command.refused("host", "show", "h2", "--node", "n3")
    assert refused == "host h2 has no node 'n3'; it has n1, n2"
    refused = command.refused("host", "show", "nowhere")
    assert refused == "host 'nowhere' has no compute node; see 'host list'"


def test_a_service_is_listed_shown_and_deleted(database, command, hosts):
    rows = {row["Host"]: row for row in command.json("service", "list")}
    assert (rows["h1"]["Zone"], rows["controller"]["Zone"]) == ("nova", "internal")
    shown = command.json("service", "show", "h1")
    assert (shown["uuid"], shown["state"]) == (rows["h1"]["UUID"], "up")
    shown = command.json("service", "show", "controller", "--binary", "nova-scheduler")
    assert shown["zone"] == "internal"
    assert "there is no service nova-compute" in command.refused("service", "show", "controller")
    assert "would register again: stop it" in command.refused("service", "delete", "h1")
    execute(database, "UPDATE services SET last_seen_up = '2020-01-01 00:00:00' WHERE host = 'h1'")
    assert command.json("service", "delete", "h1")["deleted_nodes"] == ["h1"]
    assert [row["Host"] for row in command.json("host", "list")] == ["h2", "h2"]


def test_hosts_are_listed_by_what_an_operator_asks_for(command, hosts):
    command.json("host", "disable", "h1", "--reason", "new fans")
    command.json("aggregate", "create", "rack")
    command.json("aggregate", "add", "host", "rack", "h1")
    for asked in (
        ["--aggregate=rack"],
        ["--state", "down, disabled"],
        ["--zone=nova", "--state=disabled"],
    ):
        (row,) = command.json("host", "list", *asked)
        assert (row["Host"], row["Disabled Reason"], row["Memory %"]) == ("h1", "new fans", 1)
        assert row["Last Seen"]
    rows = command.json("host", "list", "--sort-column", "Memory %", "--sort-descending")
    assert len(rows) == 3


def test_a_state_that_there_is_not_is_refused(command, hosts):
    refused = command.refused("host", "list", "--state=up,disbled", status=2)
    assert "argument --state: there is no state 'disbled'; did you mean disabled?" in refused
    refused = command.refused("host", "list", "--state=", status=2)
    assert "no state ''; states are up, disabled, maintenance, down, forced_down" in refused


def test_services_of_a_host_in_any_letter_case(command, hosts):
    assert [row["Host"] for row in command.json("service", "list", "--host=H1")] == ["h1"]


def test_uuids_are_for_programs(command, hosts):
    assert command.json("service", "list")[0]["UUID"]
    assert "UUID" not in command.run("service", "list").stdout


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["host", "list", "--zone=noa"], "there is no availability zone 'noa'; did you mean nova?"),
        (["host", "list", "--zone=x"], "no availability zone 'x'; see 'availability zone list'"),
        (["host", "list", "--zone=North"], "zone 'North'; did you mean north?"),
        (["host", "list", "--aggregate=rak"], "no aggregate 'rak'; did you mean rack?"),
        (["service", "list", "--host=controler"], "no host 'controler'; did you mean controller?"),
        (["service", "list", "--host=x"], "there is no host 'x'; see 'service list'"),
        (["service", "list", "--binary=nova-compte"], "did you mean nova-compute"),
        (["claim", "list", "--host=nope"], "there is no host 'nope'; see 'service list'"),
        (["hypervisor", "list", "--matching=h11"], "with 'h11' in its name; did you mean h1?"),
        (["hypervisor", "list", "--matching=x"], "'x' in its name; see 'hypervisor list'"),
        (["capacity", "--flavor=1,1,1", "--availability-zone=nov"], "did you mean nova?"),
        (["capacity", "--flavor=1,1,1", "--aggregate=rak"], "'rak'; did you mean rack?"),
        (["aggregate", "show", "rak"], "there is no aggregate 'rak'; did you mean rack?"),
    ],
)
def test_names_that_there_is_nothing_of_are_refused(database, command, hosts, arguments, output):
    database.write(lambda c: aggregates.create(c, "rack", [], {"availability_zone": "north"}))
    assert output in command.refused(*arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ["host", "list", "--zone=north"],
        ["claim", "list", "--host=H1"],
        ["service", "list", "--host=h1", "--binary=nova-scheduler"],
        ["claim", "list", "--instance=gone"],
    ],
)
def test_what_has_nothing_at_present_is_an_empty_list(database, command, hosts, arguments):
    database.write(lambda c: aggregates.create(c, "rack", [], {"availability_zone": "north"}))
    assert command.json(*arguments) == []


def test_a_kind_of_service_of_which_none_is_there_yet_is_no_mistake(command):
    assert command.json("service", "list", "--binary=nova-compute") == []
    assert command.json("host", "list", "--zone=nova") == []
