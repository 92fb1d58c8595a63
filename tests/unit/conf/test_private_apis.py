# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Without a private name of a library the daemon warns once and goes on."""

import logging
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from types import ModuleType
from typing import Any

import pytest
from oslo_config import cfg

from conf import private_apis
from conf.private_apis import PrivateName


class Part:
    """A part of a library, with these attributes."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


def without(name: PrivateName, owner: Any) -> Any:
    """Return the object without the last part of a path from it."""
    *path, last = name.path.split(".")
    delattr(attrgetter(".".join(path))(owner) if path else owner, last)
    return owner


def a_consumer() -> Part:
    return Part(cancel=print, callback=print)


def a_server(consumer: Part | None = None) -> Part:
    """Return a server of oslo.messaging that has lost its connection and its thread."""
    kombu = Part(connected=False)
    connection = Part(
        connection=Part(connection=kombu), consume=print, _consumers={consumer or a_consumer(): 1}
    )
    poller = Part(conn=connection, incoming=["message"])
    thread = Part(is_alive=lambda: False)
    listener = Part(_poll_style_listener=poller, _listen_thread=thread)
    return Part(listener=listener, _executor_cls=print, _on_incoming=print)


def an_incoming(**attributes: Any) -> Part:
    raw = Part(properties={}, body=b"12345")
    return Part(message=Part(_raw_message=raw), **attributes)


@dataclass
class Case:
    """A name, what uses it, and what that returns without it."""

    name: PrivateName
    use: Callable[[], Any]
    expected: Any = None


def of_server(name: PrivateName, use: Callable[[Any], Any], expected: Any = None) -> Case:
    return Case(name, lambda: use(without(name, a_server())), expected)


def of_consumer(name: PrivateName, use: Callable[[Any], Any], expected: Any = None) -> Case:
    return Case(name, lambda: use(a_server(without(name, a_consumer()))), expected)


def cancelled(server: Any) -> list[Any]:
    return list(private_apis.cancellations(server))


def wrapped(server: Any) -> None:
    private_apis.wrap_callbacks(server, lambda callback: callback)


CASES = [
    of_server(private_apis.EXECUTOR, lambda server: private_apis.replace_executor(server, list)),
    of_server(private_apis.DISPATCH, private_apis.dispatch_received),
    of_server(private_apis.RECEIVED, private_apis.dispatch_received),
    of_server(private_apis.LISTEN_THREAD, private_apis.is_listening, True),
    of_server(private_apis.CONNECTED, private_apis.is_connected, True),
    of_server(private_apis.CONSUME, lambda server: private_apis.poll_every(server, 1)),
    of_server(private_apis.CONSUMERS, cancelled, []),
    of_consumer(private_apis.CANCEL, cancelled, []),
    of_consumer(private_apis.CALLBACK, wrapped),
    Case(private_apis.REPLY_QUEUE, lambda: private_apis.awaits_reply(Part()), False),
    Case(
        private_apis.PROPERTIES,
        lambda: private_apis.expiration(without(private_apis.PROPERTIES, an_incoming())),
        math.inf,
    ),
    Case(
        private_apis.BODY,
        lambda: private_apis.size_of(without(private_apis.BODY, an_incoming())),
        0,
    ),
    Case(private_apis.DELIVERY, lambda: private_apis.give_back(Part(_raw_message=Part())), False),
    Case(private_apis.CALL_MONITOR_TIMEOUT, lambda: private_apis.disable_heartbeats(Part())),
    Case(
        private_apis.SEND_NOTIFICATION,
        lambda: private_apis.send_notification(Part(), "target", retry=1),
    ),
    Case(private_apis.OPTIONS, lambda: private_apis.registered_options(Part(_groups={})), {}),
    Case(private_apis.GROUPS, lambda: private_apis.registered_options(Part(_opts={})), {}),
    Case(private_apis.TLS_CONTEXT, lambda: private_apis.sharing_tls_context(Part), Part),
    Case(private_apis.ARGUMENTS, lambda: private_apis.arguments_of(Part()), []),
    Case(private_apis.COMMAND_LINE, lambda: private_apis.command_line(Part()), []),
]


@pytest.fixture(autouse=True)
def not_warned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_apis, "_warned", set())


def check(case: Case, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    assert case.use() == case.expected
    assert case.use() == case.expected
    missing = case.name.path.split(".")[-1]
    assert caplog.messages == [
        f"The installed {case.name.library} has no {case.name.path} ({missing} is missing):"
        f" {case.name.loss}; install a release that Berthmaster was tried with"
    ]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.path)
def test_without_a_name_it_goes_on_and_warns_once(
    case: Case, caplog: pytest.LogCaptureFixture
) -> None:
    check(case, caplog)


@pytest.mark.parametrize("module", [None, ModuleType("service")])
def test_without_the_worker_of_oslo_service_it_warns_once(
    module: ModuleType | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, private_apis.WORKER_MODULE, module)
    case = Case(private_apis.WORKER_SERVICE, lambda: private_apis.on_worker_reload(print))
    check(case, caplog)


def test_each_name_has_such_a_test() -> None:
    names = {each for each in vars(private_apis).values() if isinstance(each, PrivateName)}
    with_modules = {private_apis.WORKER_SERVICE}
    assert names - {each.name for each in CASES} == with_modules


def test_the_size_of_a_message_is_that_of_its_body() -> None:
    assert private_apis.size_of(an_incoming()) == 5


def test_the_transport_in_memory_has_nothing_to_miss(caplog: pytest.LogCaptureFixture) -> None:
    in_memory = type("FakeListener", (), {"__module__": private_apis._IN_MEMORY})()
    server = a_server()
    server.listener._poll_style_listener = in_memory
    assert private_apis.is_connected(server)
    assert cancelled(server) == []
    private_apis.dispatch_received(server)
    private_apis.poll_every(server, 1)
    assert not private_apis.awaits_reply(in_memory)
    assert caplog.messages == []


def test_a_server_that_has_not_started_is_listening_but_not_connected() -> None:
    server = Part(listener=None)
    assert private_apis.is_listening(server)
    assert not private_apis.is_connected(server)


def test_an_idle_server_polls_with_the_interval() -> None:
    polled: list[float] = []
    connection = Part(consume=lambda timeout=None: polled.append(timeout))
    poller = Part(conn=connection)
    listener = Part(_poll_style_listener=poller)
    private_apis.poll_every(Part(listener=listener), 0.25)
    connection.consume(timeout=0.001)
    connection.consume()
    assert polled == [0.25] * 2


@pytest.mark.parametrize(
    ("properties", "seconds"),
    [
        ({"expiration": "1500"}, 1.5),
        *(({"expiration": each}, math.inf) for each in (None, "soon", "9" * 400)),
        ({}, math.inf),
        (None, math.inf),
    ],
)
def test_the_expiration_of_a_message(properties: Any, seconds: float) -> None:
    message = Part(_raw_message=Part(properties=properties))
    assert private_apis.expiration(Part(message=message)) == seconds


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"timestamp_in_ms": 1500}, 1.5),
        *(({"timestamp_in_ms": each}, None) for each in (None, "soon", math.inf)),
        ({}, None),
        (None, None),
    ],
)
def test_when_the_broker_got_a_message(headers: Any, seconds: float | None) -> None:
    message = Part(_raw_message=Part(properties={"application_headers": headers}))
    assert private_apis.broker_time(Part(message=message)) == seconds


@pytest.mark.parametrize(
    ("delivery", "goes_back"),
    [({"redelivered": False}, True), ({"redelivered": True}, False), ({}, False), (None, False)],
)
def test_what_was_handed_out_before_is_not_given_back(delivery: Any, goes_back: bool) -> None:
    given: list[bool] = []
    message = Part(_raw_message=Part(delivery_info=delivery), requeue=lambda: given.append(True))
    assert private_apis.give_back(message) is goes_back
    assert given == [True] * goes_back


@pytest.mark.parametrize(("queue", "is_call"), [(None, False), ("", False), ("reply_1", True)])
def test_a_cast_awaits_no_reply(queue: str | None, is_call: bool) -> None:
    assert private_apis.awaits_reply(an_incoming(reply_q=queue)) is is_call


def test_options_are_listed_with_their_groups() -> None:
    conf = cfg.ConfigOpts()
    here, there = cfg.StrOpt("here"), cfg.StrOpt("there", secret=True)
    conf.register_opt(here)
    conf.register_opt(there, "group")
    found = private_apis.registered_options(conf)
    assert found[("DEFAULT", "here")] is here
    assert found[("group", "there")] is there
