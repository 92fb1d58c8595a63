# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What operators do with hosts, over RPC and on the command line, with real agents on RabbitMQ."""

import signal
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from uuid import uuid4

import kombu
import oslo_messaging
import pytest
import sqlalchemy as sa
from oslo_config import cfg

from inventory import compute_nodes, services
from inventory.engine import Database
from scheduler.client.agent_client import AgentClient, server_name
from scheduler.client.scheduler_client import SchedulerClient
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import (
    ComputeHostNotFound,
    ComputeServiceInUse,
    Forbidden,
    InvalidInput,
    NoValidHost,
    ServiceUnavailable,
    Unsupported,
)
from tests.backends import BACKENDS, backends_alike
from tests.builders import a_request
from tests.databases import execute
from tests.fixtures.daemons.libvirtd import Libvirtd
from tests.fixtures.daemons.process import Process, wait_until
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.fixtures.deployment import Deployment, a_fleet, wait_for_log

CALLER = RequestContext(request_id="req-operator", user_name="root")
QUICK = {"compute_driver": "fake", "report_interval": 1, "update_resources_interval": 1}
FAKE = {"DEFAULT": QUICK, "fake": {"vcpus": 8, "memory_mb": 16384, "local_gb": 100}}
ALLOWED = {**FAKE, "compute_agent": {"allow_host_power_actions": True}}


class Agents:
    """Asks agents, each time with connections of its own, as the command does."""

    def __init__(self, url: str) -> None:
        self._url = url

    def ask(self, agent: str, method: str, timeout: float = 20.0, **arguments: Any) -> Any:
        transport = oslo_messaging.get_rpc_transport(cfg.CONF, url=self._url)
        with closing(AgentClient(cfg.CONF, transport)) as client:
            return client.call(CALLER, agent, method, timeout, **arguments)

    def answers(self, agent: str) -> bool:
        try:
            return bool(self.ask(agent, "ping", 2.0))
        except ServiceUnavailable:
            return False


@pytest.fixture
def agents(rabbitmq: RabbitMQ) -> Iterator[Agents]:
    """A caller, on the process-wide configuration that oslo.messaging insists on."""
    oslo_messaging.set_transport_defaults("nova")
    cfg.CONF([], project="berthmaster")
    yield Agents(rabbitmq.transport_url)
    cfg.CONF.reset()


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """Each of the two that an agent can run on."""
    found: str = request.param
    return found


def log_of(process: Process) -> str:
    return process.log.read_text()


def service(database: Database, host: str) -> sa.Row[Any]:
    row = database.read(lambda c: services.find(c, host, services.COMPUTE[0]))
    assert row is not None
    return row


def reports(database: Database, host: str) -> bool:
    """Tell whether the agent of a host beats on and audits."""
    before = service(database, host).report_count
    return wait_until(lambda: service(database, host).report_count > before + 1)


def ready(process: Process, database: Database) -> Process:
    """Wait until an agent, the first in its database, has reported and listens."""
    wait_for_log(process, "Listening as compute.berthmaster-agent")
    assert wait_until(lambda: database.read(compute_nodes.all_live)), log_of(process)
    return process


def test_an_agent_answers_and_obeys_over_rpc(
    deployment: Deployment, database: Database, agents: Agents, backend: str
) -> None:
    each = ready(deployment.agent(backend, FAKE, name="compute1"), database)
    assert agents.ask("compute1", "ping", arg="x")["host"] == "compute1"
    rows = agents.ask("compute1", "host_describe")
    assert [tuple(row.values()) for row in rows] == [
        ("compute1", "(total)", 8, 16384, 100),
        ("compute1", "(used_now)", 0, 512, 0),
        ("compute1", "(used_max)", 0, 0, 0),
    ]
    (host,) = agents.ask("compute1", "host_list")
    assert (host["host"], host["status"], host["state"]) == ("compute1", "enabled", "up")
    assert agents.ask("compute1", "hypervisor_stats")["vcpus"] == 8

    agents.ask("compute1", "set_host_enabled", enabled=False, reason="new lamp")
    row = service(database, "compute1")
    assert (row.disabled, row.disabled_reason) == (True, "new lamp")
    # The agent's own audits leave an operator's word alone.
    assert reports(database, "compute1")
    assert service(database, "compute1").disabled_reason == "new lamp"
    assert agents.ask("compute1", "set_host_enabled", enabled=True)["status"] == "enabled"
    assert "was disabled by root (req-operator): new lamp" in log_of(each)

    for method, arguments, failure, text in (
        ("set_host_enabled", {"enabled": "no"}, InvalidInput, "enabled: must be true or false"),
        ("host_describe", {"host": 7}, InvalidInput, "host: must be a text"),
        ("host_describe", {"hots": "h"}, InvalidInput, "'hots': there is no such argument"),
        ("host_describe", {"host": "nowhere"}, ComputeHostNotFound, "host 'nowhere'"),
        ("service_delete", {}, ComputeServiceInUse, "would register again"),
        ("host_power_action", {"action": "reboot"}, Forbidden, "allow_host_power_actions"),
        ("host_power_action", {"action": "explode"}, InvalidInput, "action: 'explode'"),
        ("get_host_uptime", {}, Unsupported, "does not report the boot time"),
    ):
        with pytest.raises(failure, match=text):
            agents.ask("compute1", method, **arguments)
    with pytest.raises(ServiceUnavailable, match="which does not know _leave"):
        agents.ask("compute1", "_leave")
    assert "Traceback" not in log_of(each)
    assert each.stop() == 0


def test_power_actions_are_allowed_by_an_option_at_any_time(
    deployment: Deployment, database: Database, agents: Agents, backend: str
) -> None:
    each = ready(deployment.agent(backend, FAKE, name="compute1"), database)
    power = ("host", "power", "compute1", "reboot")
    refused = deployment.cli(*power)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "set [compute_agent] allow_host_power_actions" in refused.stderr
    deployment.write_config("compute1", ALLOWED)
    each.send(signal.SIGHUP)

    def done() -> bool:
        return deployment.cli(*power).returncode == 0

    assert wait_until(done), log_of(each)
    shown = deployment.cli_json(*power)
    assert (shown["host"], shown["power_action"]) == ("compute1", "rebooting")
    assert "Asked to reboot host compute1 by " in log_of(each)
    deployment.write_config("compute1", FAKE)
    each.send(signal.SIGHUP)
    assert wait_until(lambda: not done())


def test_one_agent_of_many_hosts_is_reached_by_its_own_name(
    deployment: Deployment, database: Database
) -> None:
    options = {**ALLOWED, "fake": {"hosts": 3}}
    agent = ready(deployment.agent(options=options, name="fleet"), database)
    power = ("host", "power", "fleet-0002", "shutdown")
    assert deployment.cli_json(*power)["host"] == "fleet-0002"
    both = deployment.cli_json("host", "power", "fleet-0001", *power[2:], "--agent", "fleet")
    assert [row["host"] for row in both] == ["fleet-0001", "fleet-0002"]
    asked = deployment.cli("hypervisor", "uptime", "fleet-0002")
    assert "does not report the boot time" in asked.stderr
    rows = deployment.cli_json("config", "show", "--service", "fleet-0003", "--changed")
    assert {(row["Binary"], *row["Hosts"]) for row in rows} == {("nova-compute", "fleet")}
    wrong = deployment.cli("host", "power", "fleet-9", "reboot", "--agent", "fleet")
    assert "the agent fleet serves fleet-0001 and 2 more, not 'fleet-9'" in wrong.stderr
    # One of an earlier release has not reported its name.
    agent.stop()
    execute(database, "UPDATE services SET daemon_host = NULL")
    began = time.monotonic()
    lost = deployment.cli(*power, "--timeout", "40")
    assert time.monotonic() - began < 40
    assert lost.returncode == 1
    assert "The agent 'fleet-0002' is not connected to the message broker" in lost.stderr
    assert "reports host fleet-0002, name that agent with --agent." in lost.stderr


def test_no_instances_come_during_maintenance_and_the_agent_goes_on(
    deployment: Deployment, database: Database, client: SchedulerClient, backend: str
) -> None:
    ready(deployment.agent(backend, FAKE, name="compute1"), database)
    a_fleet(database, ["compute2"])
    assert reports(database, "compute1")
    deployment.scheduler(backend)

    def chosen(ignoring: str = "nobody") -> set[str]:
        uuids = [str(uuid4()) for _ in range(4)]
        size = {"vcpus": 1, "memory_mb": 64, "root_gb": 1}
        spec = a_request(ignore_hosts=[ignoring], num_instances=len(uuids), **size)
        answer = client.select_destinations(CALLER, spec, uuids)
        return {first.service_host for first, *_ in answer}

    assert chosen("compute2") == {"compute1"}
    shown = deployment.cli_json("host", "maintenance", "on", "compute1", "--reason", "new lamp")
    assert (shown["maintenance_mode"], shown["status"]) == ("on", "disabled")
    # At the very next decision.
    assert chosen() == {"compute2"}
    with pytest.raises(NoValidHost):
        chosen("compute2")
    # Neither the audits nor 'host enable' end it.
    assert reports(database, "compute1")
    assert deployment.cli_json("host", "enable", "compute1")["status"] == "disabled"
    assert chosen() == {"compute2"}
    (listed,) = deployment.cli_json("service", "list", "--host=compute1")
    assert (listed["Status"], listed["State"]) == ("disabled", "up")
    assert listed["Disabled Reason"] == "in maintenance: new lamp"
    assert deployment.cli_json("host", "maintenance", "off", "compute1")["status"] == "enabled"
    assert chosen("compute2") == {"compute1"}


def test_uptime_comes_from_the_agent_or_from_what_it_noted(
    deployment: Deployment, database: Database, libvirtd: Libvirtd
) -> None:
    options = {"DEFAULT": QUICK | {"compute_driver": "libvirt"}}
    options["libvirt"] = {"connection_uri": libvirtd.uri}
    each = ready(deployment.agent(options=options, name="compute1"), database)
    shown = deployment.cli_json("hypervisor", "uptime", "compute1")
    assert shown["source"] == "agent"
    assert shown["uptime_seconds"] > 0
    each.stop()
    later = deployment.cli_json("hypervisor", "uptime", "compute1", "--timeout", "0.5")
    assert later["source"].startswith("database, as of the last audit: The agent 'compute1' has")
    assert later["booted_at"] == shown["booted_at"]
    assert later["uptime_seconds"] >= shown["uptime_seconds"]


@pytest.mark.matrix
@backends_alike
def test_an_agent_needs_no_broker_to_start_and_finds_one_later(
    deployment: Deployment, database: Database, agents: Agents, rabbitmq: RabbitMQ, backend: str
) -> None:
    rabbitmq.stop()
    try:
        each = deployment.agent(backend, FAKE, name="compute1")
        assert wait_until(lambda: database.read(compute_nodes.all_live))
        assert reports(database, "compute1")
        wait_for_log(each, "No operations over RPC, trying again in 1 s and then less often")
    finally:
        rabbitmq.start()
    ready(each, database)
    assert agents.answers("compute1")
    assert log_of(each).count("No operations over RPC") == 1
    # That of who sends rather than listens.
    assert log_of(each).count(" ERROR ") <= 1
    # A broker that still starts may have cut a connection of the agent.
    before = log_of(each).count(" is unreachable: ")
    rabbitmq.stop()
    try:
        assert reports(database, "compute1")
        wait_for_log(each, "recoverable connection/channel error occurred")
        wait_for_log(each, " is unreachable: ")
        assert reports(database, "compute1")
    finally:
        rabbitmq.start()
    wait_for_log(each, "Reconnected to AMQP server")
    assert wait_until(lambda: agents.answers("compute1"))
    assert log_of(each).count(" is unreachable: ") <= before + 1
    assert each.stop() == 0


@pytest.mark.matrix
@backends_alike
def test_an_agent_can_leave_while_the_broker_is_away(
    deployment: Deployment, database: Database, rabbitmq: RabbitMQ, backend: str
) -> None:
    each = ready(deployment.agent(backend, FAKE, name="compute1"), database)
    rabbitmq.stop()
    try:
        wait_for_log(each, " is unreachable: ")
        each.send(signal.SIGTERM)
        assert each.wait() == 0, log_of(each)
    finally:
        rabbitmq.start()


@pytest.mark.matrix
@backends_alike
def test_what_an_agent_missed_is_not_done_later(
    deployment: Deployment, database: Database, agents: Agents, backend: str
) -> None:
    each = ready(deployment.agent(backend, ALLOWED, name="compute1"), database)
    assert each.stop() == 0
    with pytest.raises(ServiceUnavailable, match="'compute1' has not answered within 1 s"):
        agents.ask("compute1", "set_host_enabled", 1.0, enabled=False)
    each = deployment.agent(backend, ALLOWED, name="compute1")
    assert wait_until(lambda: agents.answers("compute1"))
    assert reports(database, "compute1")
    assert not service(database, "compute1").disabled
    assert "was disabled" not in log_of(each)


def test_nova_compute_of_the_same_host_keeps_its_messages(
    deployment: Deployment, database: Database, rabbitmq: RabbitMQ
) -> None:
    ready(deployment.agent(options=FAKE, name="compute1"), database)
    url = rabbitmq.transport_url.replace("rabbit://", "amqp://")
    with kombu.Connection(url) as connection:
        queue = f"compute.{server_name('compute1')}"
        found = connection.channel().queue_declare(queue, passive=True)
        assert found.consumer_count == 1
        # The queue of nova-compute is not even there.
        with pytest.raises(connection.channel_errors, match=r"no queue 'compute\.compute1'"):
            connection.channel().queue_declare("compute.compute1", passive=True)
