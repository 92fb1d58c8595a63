# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Either intake on a broker that dies, blocks or has a setting of its own."""

import subprocess
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from threading import Event
from typing import Any

import oslo_messaging
import pytest
from oslo_config import cfg

from scheduler.messaging.intake import BATCHED
from tests.contract.intake.conftest import Serve, Served
from tests.fixtures import availability
from tests.fixtures.amqp_caller import AmqpCaller
from tests.fixtures.daemons.ports import LOOPBACK
from tests.fixtures.daemons.process import PATIENCE, search_path, wait_until
from tests.fixtures.daemons.tls_rabbitmq import TlsRabbitMQ
from tests.fixtures.virtual_host import CONTROL, VirtualHost

CALLERS, ENOUGH = 4, 15
# Seconds that a caller waits before it asks again.
REPEAT = 4
_NUMBERS = count(1)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsRabbitMQ]:
    """A broker that no other test is on."""
    availability.require(availability.RABBITMQ)
    with TlsRabbitMQ(tmp_path_factory.mktemp("outages")) as found:
        yield found


class Callers:
    """Callers in threads, each of whom repeats a call that got no answer."""

    def __init__(self, served: Served) -> None:
        self._transport = oslo_messaging.get_rpc_transport(cfg.CONF, url=served.url)
        target = oslo_messaging.Target(topic=served.topic, version="4.0")
        client = oslo_messaging.get_rpc_client(self._transport, target)
        self._client = client.prepare(timeout=REPEAT)
        self._names = count(1)
        self.answered = Counter[int]()
        self._enough = Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        with ThreadPoolExecutor(CALLERS) as pool:
            running = [pool.submit(self._call, number) for number in range(CALLERS)]
            yield
            assert wait_until(self.more())
            self._enough.set()
            for each in running:
                each.result(PATIENCE)
        self._transport.cleanup()

    def more(self) -> Any:
        """Return what tells whether each has got so many more answers."""
        wanted = {number: self.answered[number] + ENOUGH for number in range(CALLERS)}
        return lambda: all(self.answered[each] >= number for each, number in wanted.items())

    def _call(self, number: int) -> None:
        while not self._enough.is_set():
            name = str(next(self._names))
            try:
                assert self._client.call({}, "ask", name=name) == f"answer to {name}"
            except (oslo_messaging.MessagingTimeout, oslo_messaging.MessageDeliveryFailure):
                continue
            self.answered[number] += 1


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_nothing_is_lost_or_handled_twice_when_the_broker_was_away(
    serve: Serve, broker: TlsRabbitMQ, how: str
) -> None:
    served = serve(broker.transport_url)
    served.start()
    callers = Callers(served)
    with callers.running():
        assert wait_until(callers.more())
        getattr(broker, how)()
        try:
            assert wait_until(lambda: not served.intake.connected())
        finally:
            broker.start()
        assert wait_until(served.intake.connected)
    assert max(Counter(served.endpoint.asked).values()) == 1
    assert wait_until(lambda: served.intake.in_flight == 0)
    assert served.intake.alive()


def control(broker: TlsRabbitMQ, *command: str) -> str:
    return subprocess.run(
        [CONTROL, "--quiet", *command],
        env={"PATH": search_path(), "LANG": "C.UTF-8", **broker.environment()},
        check=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    ).stdout


@contextmanager
def an_alarm(broker: TlsRabbitMQ) -> Iterator[None]:
    """Let the broker have no memory, so that it reads from nobody who publishes."""
    control(broker, "set_vm_memory_high_watermark", "0.0")
    try:
        alarms = lambda: "memory" in control(broker, "eval", "rabbit_alarm:get_alarms().")  # noqa: E731
        assert wait_until(alarms)
        yield
    finally:
        control(broker, "set_vm_memory_high_watermark", "0.9")


def test_a_blocked_broker_stops_answers_and_not_the_reader(
    serve: Serve, broker: TlsRabbitMQ
) -> None:
    served = serve(broker.transport_url)
    served.start(3, served.take)
    with AmqpCaller(broker.transport_url) as caller:
        sent = [caller.send(served.ask(str(each), "wait"), served.topic) for each in range(6)]
        assert wait_until(lambda: len(served.taken) == 3)
        with an_alarm(broker):
            # The broker reads the first one, and nothing more of those who sent it.
            for call in served.taken[:3]:
                call.reply("early")
            if served.kind == BATCHED:
                assert wait_until(lambda: len(served.taken) == 6)
            with pytest.raises(AssertionError, match="no reply within"):
                _drain(caller)
            assert served.intake.connected()
        for number in range(6):
            assert wait_until(lambda number=number: len(served.taken) > number)
            served.taken[number].reply("late")
        assert [caller.reply(each)["result"] for each in sent] == ["early"] * 3 + ["late"] * 3
    assert wait_until(lambda: served.intake.in_flight == 0)


def _drain(caller: AmqpCaller) -> None:
    while True:
        caller.drain(2)


@pytest.mark.parametrize(
    "setting",
    [
        "several",
        "tls",
        "?kombu_compression=gzip",
        "?rabbit_quorum_queue=1&rabbit_transient_quorum_queue=1",
        "?rabbit_stream_fanout=1&rabbit_transient_quorum_queue=1&rabbit_quorum_queue=1",
        "?heartbeat_timeout_threshold=0",
        "?rabbit_qos_prefetch_count=1",
    ],
)
def test_the_settings_of_the_driver_hold(serve: Serve, broker: TlsRabbitMQ, setting: str) -> None:
    with VirtualHost(broker, f"settings{next(_NUMBERS)}") as host:
        url = f"{host.transport_url}{setting if setting.startswith('?') else ''}"
        if setting == "several":
            url = url.replace("guest:guest@", f"guest:guest@{LOOPBACK}:1,guest:guest@")
        elif setting == "tls":
            secured = url.replace(f":{broker.port}/", f":{broker.tls_port}/")
            url = f"{secured}?ssl=1&ssl_ca_file={broker.authority.ca_file}"
        served = serve(url)
        served.start()
        target = oslo_messaging.Target(topic=served.topic, version="4.0")
        client = oslo_messaging.get_rpc_client(served.transport, target)
        called = client.prepare(timeout=PATIENCE)
        assert [called.call({}, "ask", name=str(each)) for each in range(30)] == [
            f"answer to {each}" for each in range(30)
        ]
        client.prepare(fanout=True).cast({}, "ask", name="cast")
        assert wait_until(lambda: served.handles("cast"))
        # Before the virtual host is gone.
        served.close()


def test_a_broker_that_refuses_the_account_stops_the_start(
    serve: Serve, broker: TlsRabbitMQ
) -> None:
    served = serve(broker.transport_url.replace("guest:guest@", "guest:wrong@"))
    served.open()
    with pytest.raises(Exception, match=r"the broker refuses the .*: Login was refused"):
        served.intake.start()
