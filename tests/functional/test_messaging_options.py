# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of messaging that operators know from Nova do here what they do there."""

import re
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from inventory.engine import Database
from tests.backends import backends_alike
from tests.fixtures.amqp_caller import AmqpCaller
from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.daemons.process import Guard, Process, wait_until
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.fixtures.deployment import Deployment, a_fleet, wait_for_log
from tests.fixtures.virtual_host import VirtualHost
from tests.unit.scheduler.wire import wire_samples

pytestmark = pytest.mark.matrix
NEWTON = "call_newton_select_destinations_4.3"
NEWEST = "call_select_destinations_4.5_objects_no_alternates"
NOTIFYING = {"oslo_messaging_notifications": {"driver": "messagingv2"}}
AGENT = {
    "DEFAULT": {"compute_driver": "fake", "update_resources_interval": 1},
    "compute_agent": {"refresh_interval": 1},
}


@pytest.fixture
def host(rabbitmq: RabbitMQ) -> Iterator[VirtualHost]:
    with VirtualHost(rabbitmq, f"options-{uuid4().hex}") as found:
        yield found


@pytest.fixture
def alone(host: VirtualHost, deployment: Deployment) -> Iterator[Deployment]:
    """The deployment on a virtual host of its own; its daemons end before their queues do."""
    with Guard() as guard:
        directory = deployment.directory / "alone"
        directory.mkdir()
        found = Deployment(directory, guard, host.transport_url, deployment.database_url)
        yield found


def _with(options: dict[str, Any], **default: Any) -> dict[str, Any]:
    return options | {"DEFAULT": options.get("DEFAULT", {}) | default}


def _use(deployment: Deployment, **options: dict[str, Any]) -> None:
    """Give the command these options."""
    deployment.config = deployment.write_config("command", options)


def _ping(version: str = "1.0") -> dict[str, Any]:
    message = wire_samples.sample("call_oslo_rpc_server_ping_disabled")["message"]
    return message | {"version": version}


@backends_alike
def test_everything_goes_by_the_control_exchange(
    alone: Deployment, host: VirtualHost, backend: str
) -> None:
    other = {"control_exchange": "other"}
    scheduler = alone.scheduler(backend, _with(NOTIFYING, debug=True, **other))
    agent = alone.agent(backend, _with(AGENT, **other))
    wait_for_log(agent, "Listening as compute")
    wait_for_log(scheduler, f"'{agent.name}' pushed changes")
    _use(alone, DEFAULT=other)
    (answer,) = alone.cli_json("select")
    assert answer["Host"] == agent.name
    bound = host.bindings()
    # What goes to all has an exchange for each topic.
    assert {exchange for exchange, _ in bound if not exchange.endswith("_fanout")} == {"other"}
    assert {queue for exchange, queue in bound if exchange == "other"} >= {
        "scheduler",
        f"scheduler.{scheduler.name}",
        "berthmaster-scheduler",
        f"compute.berthmaster-agent.{agent.name}",
        "notifications.info",
    }
    assert "nova" not in host.exchanges()

    _use(alone)
    asked = alone.cli("select", "--timeout=1")
    assert (asked.returncode, asked.stdout) == (1, "")
    assert "with the same transport_url and control_exchange" in asked.stderr


def test_the_exchange_is_that_of_nova_unless_said_otherwise(
    alone: Deployment, host: VirtualHost
) -> None:
    alone.scheduler("eventlet", NOTIFYING)
    agent = alone.agent("threading", AGENT)
    wait_for_log(agent, "Listening as compute")
    assert wait_until(lambda: alone.cli("select").returncode == 0)
    assert {name for name in host.exchanges() if not name.endswith("_fanout")} == {"nova"}


def test_our_caller_keeps_to_the_configured_level(
    deployment: Deployment, database: Database
) -> None:
    a_fleet(database, ["compute1", "compute2"])
    # What is a caller's does not concern the service.
    deployment.scheduler("threading", {"upgrade_levels": {"scheduler": "4.0", "compute": "auto"}})
    for level, knows_alternates in (("auto", True), ("pike", False), ("4.3", False), ("kilo", 0)):
        _use(deployment, upgrade_levels={"scheduler": level})
        (chosen,) = deployment.cli_json("select", "--alternates", "--memory-mb=64", "--vcpus=1")
        assert chosen["Host"] in {"compute1", "compute2"}
        assert len(chosen["Alternates"]) == int(knows_alternates)
    with AmqpCaller(deployment.transport_url) as caller:
        newest = caller.reply(caller.replay(wire_samples.sample(NEWEST)))
    assert newest["result"][0][0]["nova_object.name"] == "Selection"


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("queens", "must be a version such as 4.4, auto or one of grizzly, havana,"),
        ("icehouse", "no request can be sent in this version; the oldest possible version is 4.0"),
    ],
)
def test_a_level_of_no_use_is_one_line_of_error(
    deployment: Deployment, level: str, expected: str
) -> None:
    _use(deployment, upgrade_levels={"scheduler": level})
    done = deployment.cli("select")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert re.search(
        rf"option \[upgrade_levels\] scheduler = '?{level}'? in \S+command.conf: ", line
    )
    assert expected in line


@backends_alike
def test_ping_is_answered_where_it_is_enabled(alone: Deployment, backend: str) -> None:
    enabled = {"rpc_ping_enabled": True}
    alone.scheduler(backend, _with({}, **enabled))
    agent = alone.agent(backend, _with(AGENT, **enabled))
    wait_for_log(agent, "Listening as compute")
    with AmqpCaller(alone.transport_url) as caller:
        for queue in ("scheduler", f"compute.berthmaster-agent.{agent.name}"):
            answer = caller.call(_ping(), queue)
            assert (answer["result"], answer["failure"]) == ("pong", None)
        for name in ("call_baseapi_ping", "call_baseapi_get_backdoor_port"):
            answer = caller.call(wire_samples.sample(name)["message"])
            assert (
                answer["result"]
                == wire_samples.sample(name.replace("call", "reply"))["message"]["result"]
            )


@backends_alike
def test_callers_reach_what_is_served_and_nothing_else(alone: Deployment, backend: str) -> None:
    scheduler = alone.scheduler(backend)
    agent = alone.agent(backend, AGENT)
    wait_for_log(agent, "Listening as compute")
    host_queue = f"compute.berthmaster-agent.{agent.name}"
    refused = [
        ("scheduler", None, "4.0", "oslo_rpc_server_ping", "NoSuchMethod"),
        (host_queue, "berthmaster", "1.0", "oslo_rpc_server_ping", "NoSuchMethod"),
        ("scheduler", None, "4.5", "_selector", "NoSuchMethod"),
        ("scheduler", None, "4.5", "__init__", "NoSuchMethod"),
        ("scheduler", None, "4.5", "__getattribute__", "NoSuchMethod"),
        ("scheduler", None, "4.5", "target", "NoSuchMethod"),
        ("scheduler", None, "4.5", "ping", "NoSuchMethod"),
        ("scheduler", "baseapi", "1.1", "select_destinations", "NoSuchMethod"),
        ("scheduler", "baseapi", "1.2", "ping", "UnsupportedVersion"),
        ("scheduler", "berthmaster", "1.0", "nodes_changed", "NoSuchMethod"),
        ("scheduler", "berthmaster", "1.1", "explain_destinations", "UnsupportedVersion"),
        ("berthmaster-scheduler", None, "1.0", "nodes_changed", "UnsupportedVersion"),
        ("berthmaster-scheduler", "berthmaster", "1.0", "target", "NoSuchMethod"),
        (host_queue, "berthmaster", "1.0", "_does", "NoSuchMethod"),
        (host_queue, "berthmaster", "1.0", "target", "NoSuchMethod"),
        (host_queue, None, "1.0", "host_list", "UnsupportedVersion"),
    ]
    with AmqpCaller(alone.transport_url) as caller:
        for queue, namespace, version, method, refusal in refused:
            message = _ping(version) | {"method": method, "namespace": namespace}
            assert caller.call(message, queue)["failure"]["class"] == refusal, (method, namespace)
    for process, count in ((scheduler, 10), (agent, 4)):
        lines = process.log.read_text().splitlines()
        assert sum("Refused a call: " in line for line in lines) >= count
        assert not [line for line in lines if " ERROR " in line or "Traceback" in line]


@pytest.fixture
def paused(mariadb: MariaDB) -> Iterator[MariaDB]:
    """A database that a test may let hang."""
    yield mariadb
    mariadb.resume()


def _called(name: str, **properties: str) -> tuple[str, dict[str, Any]]:
    """Return a captured call under a request id of its own, and that id."""
    sample, request = wire_samples.sample(name), f"req-{uuid4()}"
    said = sample["message"]["_context_request_id"]
    body = sample["body"]["oslo.message"].replace(said, request)
    sample["body"]["oslo.message"] = body
    sample["amqp"]["properties"] |= properties
    return request, sample


def _of(process: Process, request: str) -> list[str]:
    return [line for line in process.log.read_text().splitlines() if request in line]


@backends_alike
def test_newton_s_call_is_dropped_when_its_message_has_expired(
    deployment: Deployment, database: Database, paused: MariaDB, backend: str
) -> None:
    a_fleet(database, ["compute1"])
    scheduler = deployment.scheduler(backend, {"scheduler": {"max_requests_in_flight": 1}})
    with AmqpCaller(deployment.transport_url) as caller:
        patient, gone = _called(NEWTON), _called(NEWTON, expiration="1000")
        assert "_timeout" not in gone[1]["message"]
        paused.pause()
        first = caller.replay(_called(NEWTON)[1])
        late = caller.replay(gone[1])
        last = caller.replay(patient[1])
        # It is out of the broker's hands, and longer so than its sender waits.
        with pytest.raises(AssertionError, match="no reply"):
            caller.drain(2)
        paused.resume()
        assert caller.reply(first)["result"]
        assert caller.reply(last)["result"]
        assert not caller.received_yet(late)
    # By the scheduler, or by the broker that it was given back to.
    for line in _of(scheduler, gone[0]):
        assert f"Dropped the call 'select_destinations' of {gone[0]}" in line
        assert line.endswith("and its caller gave up after 1.0 s")
    assert any("Selected" in line for line in _of(scheduler, patient[0]))


def test_a_command_waits_as_long_as_its_timeout(deployment: Deployment) -> None:
    _use(deployment, DEFAULT={"rpc_response_timeout": 30})
    done = deployment.cli("select", "--timeout=1")
    assert done.returncode == 1
    assert "No scheduler answered within 1 s" in done.stderr
