# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How config show puts the answers of many services together."""

import json
import logging

import pytest

from conf.settings_in_effect import BY_DEFAULT
from inventory import services
from scheduler.client import agent_client, scheduler_client
from scheduler.operators.cli.config import NO_ANSWER
from scheduler.wire.errors import NoAnswer, Unsupported
from tests.databases import execute, serve

FILE = "/etc/berthmaster/berthmaster.conf"


def setting(option, value, set_by=FILE):
    return {"group": "DEFAULT", "option": option, "value": value, "set_by": set_by}


class Clients:
    """A client of agents and schedulers, of which one agent is silent."""

    def __init__(self, *_, **__):
        pass

    def call(self, caller, host, method, timeout):
        # As oslo.messaging does of many calls at a time.
        logging.getLogger("oslo_messaging._drivers.amqpdriver").warning("Number of call queues")
        if host == "h3":
            raise NoAnswer("The agent is away")
        return {"settings": [setting("ratios", {"cpu": 2}), setting("debug", False, BY_DEFAULT)]}

    def config_show(self, caller, host, timeout):
        attempts = setting("attempts", 3 if host == "s" else None)
        return {"in_use": {"filters": ["RamFilter"]}, "settings": [attempts]}

    def close(self):
        pass


@pytest.fixture(autouse=True)
def cloud(database, monkeypatch):
    def register(connection):
        for kind, hosts in ((services.COMPUTE, ["h1", "h2", "h3"]), (services.SCHEDULER, "st")):
            services.beat(connection, services.register(connection, hosts, kind, 1))

    database.write(register)
    monkeypatch.setattr(agent_client, "AgentClient", Clients)
    monkeypatch.setattr(scheduler_client, "SchedulerClient", Clients)


def test_services_with_the_same_value_share_a_row(command):
    status, out, err = command.run("config", "show", "--changed", "-f", "json")
    assert [tuple(row.values()) for row in json.loads(out)] == [
        ("nova-scheduler", ["s", "t"], "in use", "filters", ["RamFilter"], ""),
        ("nova-scheduler", ["s"], "DEFAULT", "attempts", 3, FILE),
        ("nova-scheduler", ["t"], "DEFAULT", "attempts", None, FILE),
        ("nova-compute", ["h1", "h2"], "DEFAULT", "ratios", {"cpu": 2}, FILE),
    ]
    assert (status, err.splitlines()) == (
        1,
        [
            f"nova-compute/h3: {NO_ANSWER}",
            "schedulers differ in [DEFAULT] attempts: 3 on s; nothing on t",
        ],
    )


def test_an_agent_of_many_hosts_is_asked_once(database, command):
    execute(database, "UPDATE services SET daemon_host = 'fleet' WHERE host LIKE 'h%'")
    execute(database, "UPDATE services SET reported_at = last_seen_up")
    rows = command.json("config", "show", "--changed", "--service", "h3")
    assert [row["Hosts"] for row in rows] == [["fleet"]]


@pytest.mark.parametrize("is_silent", [True, False])
def test_many_services_that_fail_share_a_few_lines(database, command, monkeypatch, is_silent):
    def fail(self, caller, host, method, timeout):
        raise NoAnswer(f"{host} is away") if is_silent else Unsupported(f"{host} cannot")

    monkeypatch.setattr(Clients, "call", fail)
    serve(database, *(f"n{number}" for number in range(2000)))
    status, _, err = command.run("config", "show", "--changed")
    lines = [line for line in err.splitlines() if "differ" not in line]
    assert (status, len(lines)) == (1, 1 if is_silent else 11)
    last = "nova-compute/h1, nova-compute/h2, nova-compute/h3 and 2000 more: no answer"
    assert lines[-1].startswith(last if is_silent else "1993 services failed for other reasons")


def test_where_no_service_is_up_the_command_says_so(database, command):
    execute(database, "UPDATE services SET forced_down = 1")
    refused = command.refused("config", "show")
    assert refused == "no scheduler and no agent is up; see 'service list'"
