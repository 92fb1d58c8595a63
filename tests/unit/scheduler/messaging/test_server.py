# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What the server handles, and what it drops, over oslo.messaging's transport in memory."""

import logging
import math
import threading
from collections.abc import Iterator
from threading import Event
from typing import Any

import oslo_messaging
import pytest
from oslo_config import cfg

from scheduler.messaging import call
from scheduler.messaging import server as under_test
from scheduler.messaging.server import PREFETCH, RpcServer
from scheduler.messaging.transport import UnusableTransport
from scheduler.wire.context import Deadline, stamp_size
from tests.fixtures.daemons.process import PATIENCE, wait_until

RABBIT = "oslo_messaging_rabbit"


class Endpoint:
    """Remembers what it was asked, and does not answer what is to wait before it may."""

    target = oslo_messaging.Target()
    rename = str

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.deadlines: list[Deadline] = []
        self.may_answer = Event()

    def ask(self, context: dict[str, Any], name: str, wait: bool = False) -> str:
        self.asked.append(name)
        self.deadlines.append(Deadline.of(context))
        if wait:
            assert self.may_answer.wait(PATIENCE)
        return name

    def _secret(self, context: dict[str, Any]) -> str:
        return "secret"


class Bus:
    """A server that does one thing at a time, and a caller."""

    def __init__(self, transport: oslo_messaging.Transport) -> None:
        self.transport = transport
        self.endpoint = Endpoint()
        self.taken = 0
        self.server = RpcServer(transport, "topic", "server", [self.endpoint], 1)
        self._client = oslo_messaging.get_rpc_client(
            transport, oslo_messaging.Target(topic="topic")
        )

    def call(self, name: str, timeout: float = PATIENCE, **options: float) -> Any:
        prepared = self._client.prepare(timeout=timeout, **options)
        return prepared.call({"request_id": name}, "ask", name=name)

    def ask(self, method: str) -> Any:
        return self._client.prepare(timeout=PATIENCE).call({}, method)

    def cast(self, name: str, wait: bool = False) -> None:
        self._client.cast({"request_id": name}, "ask", name=name, wait=wait)

    def give_up(self, **limits: float) -> None:
        """Call without an answer; return when the server counts the call as expired, too."""
        with pytest.raises(oslo_messaging.MessagingTimeout):
            self.call("given up", **limits)
        # After the message of keep_busy(). Its time begins when it is taken.
        assert wait_until(lambda: self.taken == 2)
        with pytest.raises(oslo_messaging.MessagingTimeout):
            self.call("later", timeout=1.1 * min(limits.values()))

    def keep_busy(self) -> None:
        """Let the server do something that lasts until endpoint.may_answer is set."""
        self.cast("busy", wait=True)
        assert wait_until(lambda: self.endpoint.asked == ["busy"])


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bus]:
    cfg.CONF([], project="berthmaster")
    transport = oslo_messaging.get_rpc_transport(cfg.CONF, url="kombu+memory:///")
    found = Bus(transport)

    def taken(context: dict[str, Any], size: int) -> None:
        stamp_size(context, size)
        found.taken += 1

    monkeypatch.setattr(under_test, "stamp_size", taken)
    found.server.start()
    yield found
    found.endpoint.may_answer.set()
    found.server.drain()
    transport.cleanup()
    cfg.CONF.clear_default("rabbit_qos_prefetch_count", RABBIT)
    cfg.CONF.reset()


def test_a_call_is_answered_and_its_deadline_is_known(bus: Bus) -> None:
    assert bus.call("one", timeout=PATIENCE) == "one"
    assert [each.seconds for each in bus.endpoint.deadlines] == [PATIENCE]


@pytest.mark.parametrize(("longest", "seconds"), [(math.inf, "0.3"), (0.1, "0.1")])
def test_a_call_that_waited_too_long_is_dropped_and_a_cast_is_not(
    bus: Bus, caplog: pytest.LogCaptureFixture, longest: float, seconds: str
) -> None:
    caplog.set_level(logging.INFO, call.__name__)
    bus.server.longest_wait = longest
    bus.keep_busy()
    bus.give_up(timeout=0.3)
    bus.cast("patient")
    bus.endpoint.may_answer.set()
    assert wait_until(lambda: "patient" in bus.endpoint.asked)
    assert "given up" not in bus.endpoint.asked
    (line,) = [each for each in caplog.messages if "Dropped the call 'ask' of given up" in each]
    assert line.endswith(f"its caller gave up after {seconds} s")


def test_a_call_is_dropped_when_its_caller_has_missed_a_heartbeat(
    bus: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, call.__name__)
    bus.keep_busy()
    bus.give_up(timeout=PATIENCE, call_monitor_timeout=1)
    bus.cast("patient")
    bus.endpoint.may_answer.set()
    assert wait_until(lambda: "patient" in bus.endpoint.asked)
    assert "given up" not in bus.endpoint.asked
    assert "gave up after 1.0 s" in caplog.text


@pytest.mark.parametrize(
    "name", ["target", "_secret", "__init__", "__class__", "deadlines", "rename", "nothing"]
)
def test_callers_reach_methods_and_nothing_else(
    bus: Bus, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    with pytest.raises(oslo_messaging.RemoteError) as refused:
        bus.ask(name)
    assert refused.value.exc_type == "NoSuchMethod"
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


def test_a_small_pool_bounds_what_is_in_flight(bus: Bus) -> None:
    cfg.CONF.set_override("executor_thread_pool_size", 1)
    try:
        server = RpcServer(bus.transport, "narrow", "server", [bus.endpoint], 30)
        server.start()
        places = server._server._work_executor._places
        assert places.acquire(blocking=False)
        assert not places.acquire(blocking=False)
        places.release()
        server.drain()
    finally:
        cfg.CONF.clear_override("executor_thread_pool_size")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RuntimeError("Configuration Error: this needs that"), "this needs that"),
        (
            oslo_messaging.MessageDeliveryFailure(
                "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'q' in vhost 'v'"
            ),
            "rabbit_quorum_queue",
        ),
    ],
)
def test_options_that_keep_it_from_listening_are_named(
    bus: Bus, monkeypatch: pytest.MonkeyPatch, error: Exception, expected: str
) -> None:
    def fail() -> None:
        raise error

    server = RpcServer(bus.transport, "other", "server", [bus.endpoint], 1)
    monkeypatch.setattr(server._server, "start", fail)
    with pytest.raises(UnusableTransport, match=expected) as caught:
        server.start()
    assert "[oslo_messaging_rabbit]" in str(caught.value)


def test_other_failures_of_the_broker_are_as_they_are(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise oslo_messaging.MessageDeliveryFailure("unreachable")

    server = RpcServer(bus.transport, "other", "server", [bus.endpoint], 1)
    monkeypatch.setattr(server._server, "start", fail)
    with pytest.raises(oslo_messaging.MessageDeliveryFailure, match=r"^unreachable$"):
        server.start()


def test_the_broker_is_asked_to_hand_out_little(bus: Bus) -> None:
    assert bus.transport.conf.oslo_messaging_rabbit.rabbit_qos_prefetch_count == PREFETCH


def test_what_the_configuration_says_of_it_counts(tmp_path, bus: Bus) -> None:
    (tmp_path / "own.conf").write_text(f"[{RABBIT}]\nrabbit_qos_prefetch_count = 0\n")
    cfg.CONF([f"--config-file={tmp_path}/own.conf"], project="berthmaster")
    RpcServer(bus.transport, "other", "server", [bus.endpoint], 1)
    assert cfg.CONF.oslo_messaging_rabbit.rabbit_qos_prefetch_count == 0


def test_what_is_being_handled_is_counted(bus: Bus) -> None:
    assert bus.server.in_flight == 0
    bus.keep_busy()
    assert bus.server.in_flight == 1
    bus.endpoint.may_answer.set()
    assert wait_until(lambda: bus.server.in_flight == 0)


def test_a_server_is_connected_from_its_start_on(bus: Bus) -> None:
    server = RpcServer(bus.transport, "later", "server", [bus.endpoint], 1)
    assert not server.connected()
    server.start()
    assert server.connected()
    # As it is while a broker is looked for that was lost.
    connection = server._server.listener._poll_style_listener.conn.connection.connection
    connection.close()
    lost = not server.connected()
    server.drain()
    assert lost


def test_idle_threads_are_used_again_and_none_is_left_for_each_message(bus: Bus) -> None:
    before = {*threading.enumerate()}
    for number in range(100):
        assert bus.call(str(number)) == str(number)
    # One that handles, and one that has answered and does not wait for more yet.
    assert len({*threading.enumerate()} - before) <= 2


def _reset(_: object = None) -> None:
    raise ConnectionResetError(104, "Connection reset by peer")


@pytest.mark.parametrize("lost", ["stop", "cancel", "cleanup"])
def test_a_stop_waits_for_requests_although_the_broker_goes_away(
    bus: Bus, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    listener = bus.server._server.listener
    bus.keep_busy()
    if lost == "cancel":
        for consumer in listener._poll_style_listener.conn._consumers:
            monkeypatch.setattr(consumer, lost, _reset)
    else:
        work = getattr(listener, lost)
        monkeypatch.setattr(listener, lost, lambda: _reset(work()))
    stopping = threading.Thread(target=bus.server.drain)
    stopping.start()
    stopping.join(0.5)
    assert stopping.is_alive()
    bus.endpoint.may_answer.set()
    stopping.join(PATIENCE)
    assert not stopping.is_alive()
    assert bus.server.in_flight == 0
