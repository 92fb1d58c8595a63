# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The agent listens when there is a broker, and nobody waits for one."""

import logging
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Thread
from typing import Self

import oslo_messaging
import pytest
from oslo_config import cfg

from compute_agent.rpc_server import AgentRpcServer, RepetitionFilter
from conf import service
from scheduler.client.agent_client import AgentClient
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import NoAnswer, ServiceUnavailable
from tests.fixtures.daemons.process import PATIENCE, wait_until

Configured = Callable[[str], cfg.ConfigOpts]


class Echo:
    """An endpoint."""

    target = oslo_messaging.Target(namespace="berthmaster", version="1.0")

    def ping(self, context: object, arg: str) -> str:
        return arg


@pytest.fixture
def configured() -> Iterator[Configured]:
    """What returns the process-wide options, which oslo.messaging insists on, with a broker."""
    conf = cfg.CONF
    conf.register_opts(service.OPTS)
    conf([], project="berthmaster", default_config_files=[], default_config_dirs=[])
    conf.set_override("host", "alpha")

    def configure(transport_url: str) -> cfg.ConfigOpts:
        oslo_messaging.TransportURL.parse(conf, transport_url)
        conf.set_override("transport_url", transport_url)
        return conf

    yield configure
    conf.reset()
    conf.clear_override("host")
    conf.clear_override("transport_url")


@pytest.fixture
def deaf_port() -> Iterator[int]:
    """A port that lets callers in and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


class Doorman:
    """A port where every caller is shown the door at once."""

    def __init__(self) -> None:
        self.callers = 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._thread = Thread(target=self._refuse, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._server.close()

    def _refuse(self) -> None:
        with suppress(OSError):
            while True:
                self._server.accept()[0].close()
                self.callers += 1


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def test_it_answers_in_one_process_without_a_broker(configured: Configured) -> None:
    conf = configured("kombu+memory:///")
    agent = AgentRpcServer(conf, [Echo()])
    agent.start()
    assert wait_until(agent.listening)
    client = AgentClient(conf)
    try:
        assert client.call(RequestContext(), "alpha", "ping", 20, arg="hello") == "hello"
    finally:
        client.close()
        agent.stop()


def test_the_name_is_not_that_of_nova_compute(configured: Configured) -> None:
    conf = configured("kombu+memory:///")
    agent = AgentRpcServer(conf, [Echo()])
    agent.start()
    assert wait_until(agent.listening)
    novas = oslo_messaging.Target(topic="compute", server="alpha", namespace="berthmaster")
    client = oslo_messaging.get_rpc_client(agent.transport, novas, timeout=0.5)
    try:
        with pytest.raises(oslo_messaging.MessagingTimeout):
            client.call({}, "ping", arg="hello")
    finally:
        agent.stop()


def test_one_transport_for_all_and_none_before(configured: Configured) -> None:
    agent = AgentRpcServer(configured("kombu+memory:///"), [])
    assert agent.transport is agent.transport
    agent.stop()
    unused = AgentRpcServer(configured("nonsense://"), [])
    unused.stop()
    with pytest.raises(oslo_messaging.exceptions.MessagingException):
        _ = unused.transport


def test_without_a_broker_it_says_so_once_and_tries_again(
    configured: Configured, caplog: pytest.LogCaptureFixture
) -> None:
    with Doorman() as doorman, caplog.at_level(logging.INFO):
        conf = configured(f"rabbit://guest:secret@127.0.0.1:{doorman.port}/")
        agent = AgentRpcServer(conf, [Echo()], first_pause=0.01, patience=PATIENCE)
        agent.start()
        assert wait_until(lambda: doorman.callers > 4)
        assert not agent.listening()
        agent.stop()
    assert "did not stop in time" not in caplog.text
    logged = [each.getMessage() for each in caplog.records if each.levelno >= logging.INFO]
    assert logged[0].startswith(
        "No operations over RPC, trying again in 0.01 s and then less often"
    )
    # The kernel has more than one word for being shown the door; each is said once.
    problems = [text.split("less often: ")[1] for text in logged]
    assert len(set(problems)) == len(problems) < doorman.callers
    assert all(text.endswith("check [DEFAULT] transport_url") for text in logged)
    assert "secret" not in caplog.text


def test_a_url_that_means_nothing_is_named(
    configured: Configured, caplog: pytest.LogCaptureFixture
) -> None:
    agent = AgentRpcServer(configured("nonsense://"), [Echo()], first_pause=0.01)
    agent.start()
    assert wait_until(lambda: "option [DEFAULT] transport_url in" in caplog.text)
    agent.stop()
    assert "'nonsense'" in caplog.text
    assert "; check" not in caplog.text


@pytest.mark.parametrize("url", ["rabbit://u:secret#x@h:5672/", "rabbit://u:secret/x@h:5672/"])
def test_a_password_that_breaks_the_url_is_not_logged(
    configured: Configured, caplog: pytest.LogCaptureFixture, url: str
) -> None:
    conf = configured("kombu+memory:///")
    conf.set_override("transport_url", url)
    agent = AgentRpcServer(conf, [Echo()])
    agent.start()
    assert wait_until(lambda: "as %23" in caplog.text)
    agent.stop()
    assert "secret" not in caplog.text
    with pytest.raises(oslo_messaging.exceptions.MessagingException, match="as %23"):
        AgentClient(conf)


def test_a_broker_that_does_not_answer_holds_up_neither_start_nor_stop(
    configured: Configured, deaf_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    agent = AgentRpcServer(
        configured(f"rabbit://guest:guest@127.0.0.1:{deaf_port}/"), [Echo()], patience=0.1
    )
    agent.start()
    agent.stop()
    assert "did not stop in time" in caplog.text
    # The attempt that was under way ends by itself.
    agent._thread.join(PATIENCE)
    assert not agent._thread.is_alive()


def test_it_can_be_stopped_without_a_start(configured: Configured) -> None:
    agent = AgentRpcServer(configured("kombu+memory:///"), [])
    agent.stop()
    assert not agent.listening()


def test_a_client_without_a_broker_fails_at_once(configured: Configured) -> None:
    conf = configured(f"rabbit://guest:secret@127.0.0.1:{free_port()}/")
    client = AgentClient(conf)
    began = time.monotonic()
    with pytest.raises(ServiceUnavailable, match="transport_url cannot be used") as caught:
        client.call(RequestContext(), "alpha", "ping", PATIENCE, arg="hello")
    assert time.monotonic() - began < PATIENCE / 2
    assert "secret" not in str(caught.value)
    client.close()


def test_a_client_of_an_absent_agent_fails_in_time(configured: Configured) -> None:
    client = AgentClient(configured("kombu+memory:///"))
    with pytest.raises(ServiceUnavailable, match=r"'beta' has not answered within 0\.2 s: check"):
        client.call(RequestContext(), "beta", "ping", 0.2, arg="hello")
    client.close()


def test_a_client_of_several_agents_names_those_that_have_not_answered(
    configured: Configured,
) -> None:
    conf = configured("kombu+memory:///")
    agent = AgentRpcServer(conf, [Echo()])
    agent.start()
    assert wait_until(agent.listening)
    client = AgentClient(conf)
    try:
        for name, who in (
            ("beta", "The agent 'beta' has"),
            # It answers, and is not the one to look at although it was asked last.
            ("alpha", "The agent 'beta' has"),
            ("gamma", "The agents beta, gamma have"),
        ):
            timeout = PATIENCE if name == "alpha" else 0.2
            with suppress(NoAnswer):
                client.call(RequestContext(), name, "ping", timeout, arg="hello")
            assert f" {who} not answered within 5 s: check" in str(client.no_answer(5))
    finally:
        client.close()
        agent.stop()


def test_an_agent_of_an_older_release_has_no_such_method(configured: Configured) -> None:
    conf = configured("kombu+memory:///")
    agent = AgentRpcServer(conf, [Echo()])
    agent.start()
    assert wait_until(agent.listening)
    client = AgentClient(conf)
    try:
        with pytest.raises(
            ServiceUnavailable, match="older release answered, which does not know config"
        ):
            client.call(RequestContext(), "alpha", "config_show", 20)
    finally:
        client.close()
        agent.stop()


def record(text: str, created: float, level: int = logging.ERROR) -> logging.LogRecord:
    made = logging.LogRecord("x", level, "x.py", 1, text, (), None)
    made.created = created
    return made


def test_each_problem_is_logged_once_until_it_was_not_met_for_a_while() -> None:
    passes = RepetitionFilter().filter
    gone, back = "AMQP server on %(hostname)s is unreachable", "Reconnected to AMQP server on"
    assert [passes(record(gone, at)) for at in (100, 100, 130, 190)] == [True, False, False, False]
    assert passes(record("other", 191))
    assert [passes(record(back, 192, logging.INFO)) for _ in range(2)] == [True, True]
    assert [passes(record(gone, at)) for at in (251, 252)] == [True, False]
