# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Every test of this folder runs on an intake that takes batches and on the stock one."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from threading import Event, Lock
from typing import Any
from uuid import uuid4

import oslo_messaging
import pytest
from oslo_config import cfg

from conf import opts
from scheduler.messaging.call import Call
from scheduler.messaging.dispatcher import Take, take_none
from scheduler.messaging.intake import BATCHED, STOCK, BatchedIntake, Intake, open_intake
from scheduler.messaging.server import RpcServer
from scheduler.wire.context import Deadline, size_of
from scheduler.wire.errors import NoValidHost
from tests.fixtures.amqp_caller import AmqpCaller
from tests.fixtures.daemons.process import PATIENCE
from tests.fixtures.daemons.rabbitmq import RabbitMQ

KINDS = {BATCHED: BatchedIntake, STOCK: RpcServer}
RABBIT = "oslo_messaging_rabbit"


class Endpoint:
    """Remembers what it was asked, and answers what is to wait when it may."""

    target = oslo_messaging.Target(version="4.5")

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.contexts: list[dict[str, Any]] = []
        self.may_answer = Event()
        self._lock = Lock()

    def ask(self, context: dict[str, Any], /, name: str) -> str:
        with self._lock:
            self.asked.append(name)
            self.contexts.append(context)
        return f"answer to {name}"

    def wait(self, context: dict[str, Any], /, name: str) -> str:
        answer = self.ask(context, name)
        assert self.may_answer.wait(PATIENCE)
        return answer

    @oslo_messaging.expected_exceptions(NoValidHost)
    def refuse(self, context: dict[str, Any], /) -> None:
        raise NoValidHost("There are not enough hosts available.")

    def fail(self, context: dict[str, Any], /) -> None:
        raise ZeroDivisionError("as asked for")

    def say_what_json_cannot(self, context: dict[str, Any], /) -> Any:
        deep: list[Any] = []
        for _ in range(5000):
            deep = [deep]
        return deep


class Served:
    """An intake on a topic of its own."""

    def __init__(self, kind: str, url: str) -> None:
        self.kind, self.url = kind, url
        self.topic = f"topic_{uuid4().hex}"
        self.endpoint = Endpoint()
        self.transport = oslo_messaging.get_rpc_transport(cfg.CONF, url=url)
        self.intake: Intake
        self.taken: list[Call] = []

    def open(self, max_in_flight: int = 10, take: Take = take_none) -> Intake:
        """Make the intake, not started yet."""
        target = oslo_messaging.Target(topic=self.topic, server="server")
        self.intake = open_intake(self.transport, target, [self.endpoint], max_in_flight, take)
        assert type(self.intake) is KINDS[self.kind]
        return self.intake

    def start(self, max_in_flight: int = 10, take: Take = take_none) -> None:
        self.open(max_in_flight, take).start()

    def take(self, calls: Sequence[Call]) -> Sequence[Call]:
        """Take all calls of the method 'wait', which the test answers itself."""
        taken = [call for call in calls if call.method == "wait"]
        self.taken += taken
        return [call for call in calls if call not in taken]

    def ask(self, name: str, method: str = "ask", **more: Any) -> dict[str, Any]:
        """Return a message that asks for something."""
        return {"method": method, "version": "4.0", "args": {"name": name}, "_msg_id": "", **more}

    def handles(self, *names: str) -> bool:
        return {*names} <= {*self.endpoint.asked}

    def close(self) -> None:
        self.endpoint.may_answer.set()
        # Else it would wait for the answers of a test that has failed.
        for call in self.taken:
            call.reply(None)
        self.intake.drain()
        self.transport.cleanup()


Serve = Callable[..., Served]


@pytest.fixture(params=[BATCHED, STOCK])
def kind(request: pytest.FixtureRequest) -> Iterator[str]:
    """The option [scheduler] intake."""
    oslo_messaging.set_transport_defaults("nova")
    cfg.CONF([], project="berthmaster", default_config_files=[], default_config_dirs=[])
    opts.register(cfg.CONF)
    cfg.CONF.set_override("intake", request.param, group="scheduler")
    yield request.param
    cfg.CONF.clear_override("intake", group="scheduler")
    if RABBIT in cfg.CONF:
        cfg.CONF.clear_default("rabbit_qos_prefetch_count", RABBIT)
    cfg.CONF.reset()


@pytest.fixture
def serve(kind: str) -> Iterator[Serve]:
    """A function from a URL to what is served there, closed in the end."""
    with ExitStack() as stack:

        def serving(url: str) -> Served:
            found = Served(kind, url)
            stack.callback(found.close)
            return found

        yield serving


@pytest.fixture
def served(serve: Serve, rabbitmq: RabbitMQ, caplog: pytest.LogCaptureFixture) -> Served:
    caplog.set_level(logging.INFO)
    return serve(rabbitmq.transport_url)


@pytest.fixture
def caller(rabbitmq: RabbitMQ) -> Iterator[AmqpCaller]:
    with AmqpCaller(rabbitmq.transport_url) as found:
        yield found


def deadline_of(context: dict[str, Any]) -> float:
    """Return the seconds of the deadline in a context."""
    return Deadline.of(context).seconds


def bytes_of(context: dict[str, Any]) -> int:
    """Return the size in a context."""
    return size_of(context)


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what an operator would be alarmed by."""
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]
