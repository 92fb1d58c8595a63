# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The broker's settings in the sample file do what it says, and the defaults work beside them."""

import json
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from uuid import uuid4

import oslo_messaging
import pytest
from oslo_config import cfg

from conf import service
from inventory import compute_nodes
from inventory.engine import Database
from scheduler.client.conductor import Conductor
from scheduler.client.scheduler_client import SchedulerClient
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import ServiceUnavailable
from tests.backends import backends_alike, each_backend
from tests.builders import a_request
from tests.fixtures.amqp_caller import AmqpCaller
from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.daemons.process import PATIENCE, Guard, Process, ProcessError, wait_until
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.fixtures.deployment import Deployment, a_fleet, wait_for_log
from tests.fixtures.virtual_host import VirtualHost, shipped_settings
from tests.unit.scheduler.wire import wire_samples

pytestmark = pytest.mark.matrix

RABBIT = "oslo_messaging_rabbit"
HOST = "compute1"
CALLERS = 4
ENOUGH = 30
_NUMBERS = count(1)


class Cloud:
    """Daemons and callers on a virtual host of their own, all with the same settings."""

    def __init__(self, host: VirtualHost, deployment: Deployment, database: Database) -> None:
        self.host = host
        self.deployment = deployment
        self.database = database
        self.settings: dict[str, dict[str, str]] = {}

    def options(self, process: str) -> dict[str, dict[str, str]]:
        """Return the settings, with a name for a process that is not alone on its machine."""
        if not self.settings:
            return {}
        return self.settings | {RABBIT: self.settings[RABBIT] | {"processname": process}}

    def scheduler(self, backend: str, name: str = "") -> Process:
        name = name or f"scheduler-{uuid4().hex}"
        options = {"DEFAULT": {"debug": True}} | self.options(name)
        return self.deployment.scheduler(backend, options, name=name)

    def agent(self, backend: str) -> Process:
        fake = {"compute_driver": "fake", "update_resources_interval": 1}
        # Each audit writes and publishes.
        often = {"DEFAULT": fake, "compute_agent": {"refresh_interval": 1}}
        options = often | self.options(f"agent-{uuid4().hex}")
        agent = self.deployment.agent(backend, options, name=HOST)
        written = lambda: self.database.read(compute_nodes.all_live)  # noqa: E731
        assert wait_until(written), agent.log.read_text()[-2000:]
        return agent

    def caller(self) -> SchedulerClient:
        """Return a caller of the settings that caller_configured has loaded."""
        transport = oslo_messaging.get_rpc_transport(cfg.CONF, url=self.host.transport_url)
        return SchedulerClient(cfg.CONF, transport)


@pytest.fixture
def cloud(
    rabbitmq: RabbitMQ, mariadb: MariaDB, warm_command: Path, tmp_path: Path
) -> Iterator[Cloud]:
    number = next(_NUMBERS)
    url = mariadb.create_database(f"broker_settings{number}")
    # The daemons end before their queues do.
    with VirtualHost(rabbitmq, f"settings{number}") as host, Guard() as guard:
        deployment = Deployment(tmp_path, guard, host.transport_url, url)
        deployment.command = warm_command
        deployment.make_tables()
        database = deployment.open_database()
        yield Cloud(host, deployment, database)
        database.close()


@pytest.fixture
def shipped(cloud: Cloud) -> Iterator[Cloud]:
    """A cloud in which everybody has the settings of the sample file."""
    cloud.settings = shipped_settings()
    # The queue manager asks when the leader of the process group was started; a shell in the
    # background may have ended.
    if not Path(f"/proc/{os.getpgrp()}").exists():
        os.setpgrp()
    cfg.CONF.register_opts(service.OPTS)
    with _configured(cloud.deployment.write_config("callers", cloud.options("callers"))):
        yield cloud
    for left in Path("/dev/shm").glob(f"{socket.gethostname()}_*_qmanager"):
        if left.name.split("_")[1].startswith(("scheduler-", "agent-", "callers")):
            left.unlink()


@pytest.fixture
def unedited(cloud: Cloud) -> Iterator[Cloud]:
    """A cloud in which nobody says anything of the broker but where it is."""
    with _configured():
        yield cloud


@contextmanager
def _configured(*files: Path) -> Iterator[None]:
    """Load the process-wide configuration, for callers: oslo.messaging insists on it."""
    oslo_messaging.set_transport_defaults("nova")
    cfg.CONF([f"--config-file={path}" for path in files], project="berthmaster")
    yield
    cfg.CONF.reset()


def _place(client: SchedulerClient) -> str:
    """Place an instance; who finds no broker asks again."""
    ((chosen,),) = Conductor(client).place(
        RequestContext(), a_request(vcpus=0, memory_mb=1, root_gb=0), [str(uuid4())]
    )
    return chosen.service_host


def _pushes(scheduler: Process) -> int:
    return scheduler.log.read_text().count(f"'{HOST}' pushed changes")


def _hear_more(schedulers: list[Process]) -> bool:
    known = [_pushes(each) for each in schedulers]
    more: Callable[[], bool] = lambda: all(  # noqa: E731
        _pushes(each) > before for each, before in zip(schedulers, known, strict=True)
    )
    return wait_until(more)


@backends_alike
def test_with_the_shipped_settings_a_broker_that_restarts_costs_no_answer(
    shipped: Cloud, rabbitmq: RabbitMQ, backend: str
) -> None:
    agent = shipped.agent(backend)
    schedulers = [shipped.scheduler(backend) for _ in range(2)]
    assert _hear_more(schedulers), agent.log.read_text()[-2000:]
    stopped, answers, failures = threading.Event(), list[str](), list[Exception]()

    def ask() -> None:
        client = shipped.caller()
        while not stopped.is_set():
            try:
                answers.append(_place(client))
            except Exception as error:
                failures.append(error)
        client.close()

    def more_answers() -> bool:
        wanted = len(answers) + ENOUGH
        return wait_until(lambda: len(answers) >= wanted or failures)

    callers = [threading.Thread(target=ask) for _ in range(CALLERS)]
    for caller in callers:
        caller.start()
    try:
        assert more_answers()
        rabbitmq.restart()
        assert more_answers()
    finally:
        stopped.set()
        for caller in callers:
            caller.join()
    assert not failures
    assert set(answers) == {HOST}
    assert _hear_more(schedulers), agent.log.read_text()[-2000:]


@backends_alike
def test_the_shipped_settings_take_effect(shipped: Cloud, backend: str) -> None:
    agent, scheduler = shipped.agent(backend), shipped.scheduler(backend, "scheduler-once")
    client = shipped.caller()
    assert _place(client) == HOST
    wait_for_log(agent, "Listening as compute")
    types, machine = shipped.host.queue_types(), socket.gethostname()
    assert types.keys() >= {
        "scheduler",
        "scheduler.scheduler-once",
        f"scheduler_fanout_{machine}:scheduler-once:2",
        f"berthmaster-scheduler_fanout_{machine}:scheduler-once:1",
        f"reply_{machine}:callers:1",
        "compute",
    }
    assert set(types.values()) == {"quorum"}
    rabbit = shipped.settings[RABBIT]
    assert shipped.host.heartbeats() == {int(rabbit["heartbeat_timeout_threshold"])}
    client.close()

    # Started again, it finds its queues. The one for answers is made for its first question.
    assert scheduler.stop() == 0
    shipped.scheduler(backend, "scheduler-once")
    answers = {f"reply_{machine}:scheduler-once:3": "quorum"}
    assert shipped.host.queue_types() | answers == types | answers


def test_what_expires_in_the_shipped_queues_is_not_decided(shipped: Cloud) -> None:
    a_fleet(shipped.database, [HOST])
    assert shipped.scheduler("threading").stop() == 0
    client, given_up, patient = shipped.caller(), RequestContext("req-1"), RequestContext("req-2")
    with pytest.raises(ServiceUnavailable):
        client.select_destinations(given_up, a_request(), [str(uuid4())], timeout=1)
    client.cast_select_destinations(patient, a_request(), [str(uuid4())])
    scheduler = shipped.scheduler("threading")
    decided = r"req-2 .*\] Selected "
    assert wait_until(lambda: re.search(decided, scheduler.log.read_text()))
    assert "req-1" not in scheduler.log.read_text()
    client.close()


def test_an_answer_that_has_no_queue_is_given_up_after_the_set_time(cloud: Cloud) -> None:
    patience = "kombu_missing_consumer_retry_timeout"
    assert int(shipped_settings()[RABBIT][patience]) < 60
    cloud.settings = {RABBIT: {patience: "1"}}
    scheduler = cloud.scheduler("threading")
    message = wire_samples.sample("call_baseapi_ping")["message"] | {"_reply_q": "reply_nowhere"}
    body = {"oslo.version": "2.0", "oslo.message": json.dumps(message)}
    with AmqpCaller(cloud.host.transport_url) as caller:
        caller.send_body(json.dumps(body))
    dropped = r"Dropped the answer to the call 'ping': its queue 'reply_nowhere' .* since [1-9]\."
    assert wait_until(lambda: re.search(dropped, scheduler.log.read_text()))


@each_backend
def test_an_answer_that_has_no_queue_holds_up_one_place_only(unedited: Cloud, backend: str) -> None:
    """The default is to try for a minute; others are answered meanwhile."""
    scheduler, client = unedited.scheduler(backend), unedited.caller()
    a_fleet(unedited.database, [HOST])
    assert _place(client) == HOST
    sample = wire_samples.sample("call_select_destinations_4.5_objects_no_alternates")
    with AmqpCaller(unedited.host.transport_url) as caller:
        for _ in range(3):
            caller.replay(sample, _reply_q="reply_nowhere")
    selected = "Selected"
    assert wait_until(lambda: scheduler.log.read_text().count(selected) == 4)
    for _ in range(5):
        client.select_destinations(RequestContext(), a_request(), [str(uuid4())], timeout=PATIENCE)
    assert "Dropped the answer" not in scheduler.log.read_text()
    client.close()


def test_commands_that_run_at_the_same_time_have_queues_of_their_own(shipped: Cloud) -> None:
    a_fleet(shipped.database, [HOST])
    shipped.scheduler("threading")
    nowhere = {"state_path": "/nowhere"}
    shipped.deployment.config = shipped.deployment.write_config(
        "command", {"DEFAULT": nowhere} | shipped.settings
    )
    # Whoever runs it may have no right to write there.
    (answer,) = shipped.deployment.cli_json("select")
    assert answer["Host"] == HOST
    assert not [name for name in shipped.host.queue_types() if ":berthmaster:" in name]


@backends_alike
def test_without_any_of_them_a_caller_with_the_defaults_is_served(
    unedited: Cloud, backend: str
) -> None:
    agent, scheduler = unedited.agent(backend), unedited.scheduler(backend)
    client = unedited.caller()
    assert _place(client) == HOST
    assert _hear_more([scheduler])
    wait_for_log(agent, "Listening as compute")
    assert set(unedited.host.queue_types().values()) == {"classic"}
    assert unedited.host.heartbeats() == {60}
    # Which each side chooses for itself; the reply queue is that of a caller with the default.
    prefetches = unedited.host.prefetches()
    ours = {queue: n for queue, n in prefetches.items() if not queue.startswith("reply_")}
    assert ours == {queue: 64 if queue.startswith("scheduler") else 4 for queue in ours}
    assert set(ours.values()) == {4, 64}
    client.close()


@backends_alike
def test_queues_of_the_other_kind_stop_the_start_and_are_named(
    shipped: Cloud, backend: str
) -> None:
    settings, shipped.settings = shipped.settings, {}
    shipped.scheduler("threading")
    shipped.settings = settings
    for workers in (1, 2):
        options = shipped.options(f"scheduler-{uuid4().hex}") | {"scheduler": {"workers": workers}}
        with pytest.raises(ProcessError, match="ended with status 1") as stopped:
            shipped.deployment.scheduler(backend, options, name=f"other{workers}")
        lines = stopped.value.log.read_text().splitlines()
        assert not [line for line in lines if "Traceback" in line]
        # Nobody tries again and again.
        (line,) = [line for line in lines if " ERROR " in line]
        assert "Cannot start: the broker has the queue 'berthmaster-scheduler' of virtual" in line
        assert "set [oslo_messaging_rabbit] rabbit_quorum_queue as the services that" in line


def test_other_programs_name_queues_of_the_other_kind_too(shipped: Cloud) -> None:
    shipped.scheduler("threading")
    shipped.settings = {}
    done = shipped.deployment.cli("select")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "the exchange 'nova' of virtual host" in line
    # It is of use without a broker, and looks for one again.
    agent = shipped.agent("threading")
    wait_for_log(agent, "No operations over RPC, trying again in 1 s and then less often: the bro")
    line = next(each for each in agent.log.read_text().splitlines() if "No operations" in each)
    assert ("rabbit_quorum_queue" in line, "transport_url" in line) == (True, False)
