# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Malformed messages are refused, unreadable ones dropped, with one line of the log each."""

import json
import logging
import threading
from types import SimpleNamespace

import kombu
import oslo_messaging
import pytest
from oslo_config import cfg

from scheduler.messaging.dispatcher import CheckedDispatcher
from scheduler.messaging.server import RpcServer
from tests.fixtures.daemons.process import PATIENCE, wait_until


class Endpoint:
    """Answers, or fails."""

    target = oslo_messaging.Target(version="4.5")

    asked = 0

    def ask(self, context, /, **arguments):
        self.asked += 1
        return sorted(arguments)

    def fail(self, context, /):
        raise ZeroDivisionError("as asked for")


@pytest.fixture
def dispatcher():
    cfg.CONF([], project="berthmaster")
    yield CheckedDispatcher([Endpoint()])
    cfg.CONF.reset()


@pytest.fixture
def transport(dispatcher):
    found = oslo_messaging.get_rpc_transport(cfg.CONF, url="kombu+memory:///")
    yield found
    found.cleanup()
    cfg.CONF.clear_default("rabbit_qos_prefetch_count", "oslo_messaging_rabbit")


def a_message(**changes):
    """Return a message of a caller that wants a heartbeat within 2 seconds."""
    heartbeats = []
    message = {"method": "ask", "version": "4.0", "args": {"a": 1}} | changes
    return SimpleNamespace(
        message=message,
        ctxt={},
        client_timeout=2,
        heartbeat=lambda: heartbeats.append(1),
        heartbeats=heartbeats,
    )


def refusal(dispatcher, **changes):
    """Return what a caller gets to see of the refusal of a message."""
    with pytest.raises(oslo_messaging.ExpectedException) as refused:
        dispatcher.dispatch(a_message(**changes))
    return refused.value.exc_info[1]


@pytest.mark.parametrize("arguments", [{"a": 1}, {"self": 1, "context": 2, "\ud800": 3}, {}])
def test_a_well_formed_message_is_answered(dispatcher, arguments):
    assert dispatcher.dispatch(a_message(args=arguments)) == sorted(arguments)


@pytest.mark.parametrize("version", ["4.0", "4.5", "4.3.0"])
def test_versions_that_are_served(dispatcher, version):
    assert dispatcher.dispatch(a_message(version=version)) == ["a"]


@pytest.mark.parametrize("method", ["asking", "_ask", "", "\ud800", None, 7, [], {"a": 1}, True])
def test_an_unknown_method_is_refused(dispatcher, method):
    error = refusal(dispatcher, method=method)
    assert isinstance(error, oslo_messaging.NoSuchMethod)
    assert str(error).startswith("Endpoint does not support RPC method ")


@pytest.mark.parametrize(
    "version",
    [*("4.6", "5.0", "3.9", "1.0", "", "4", "4.", ".5", "4.x", "4.5.1.2", "-4.5", "4.5.1"), None],
)
def test_versions_that_are_not_served(dispatcher, version):
    error = refusal(dispatcher, version=version)
    assert isinstance(error, oslo_messaging.UnsupportedVersion)


@pytest.mark.parametrize("version", [4.5, 4, [], {}, True, "4." + "5" * 5_000])
def test_a_malformed_version_is_refused(dispatcher, version):
    error = refusal(dispatcher, version=version)
    assert isinstance(error, oslo_messaging.UnsupportedVersion)
    assert len(str(error)) < 200


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (None, "args: null is not an object"),
        ([1, 2], "args: a list is not an object"),
        ("a" * 1000, f"args: '{'a' * 40}...' is not an object"),
    ],
)
def test_arguments_without_names(dispatcher, caplog, arguments, reason):
    with caplog.at_level(logging.INFO):
        assert refusal(dispatcher, args=arguments).reason == reason
    assert caplog.messages == [f"Refused a call: Invalid input received: {reason}"]


def test_a_message_without_a_version_counts_as_1_0(dispatcher):
    message = a_message()
    del message.message["version"]
    with pytest.raises(oslo_messaging.ExpectedException) as refused:
        dispatcher.dispatch(message)
    assert "version 1.0" in str(refused.value.exc_info[1])


def test_a_failure_is_raised_as_it_is(dispatcher):
    with pytest.raises(ZeroDivisionError):
        dispatcher.dispatch(a_message(method="fail", args={}))


@pytest.mark.parametrize(
    "changes", [{}, {"method": "asking"}, {"version": "9.0"}, {"namespace": "no"}, {"method": 7}]
)
def test_heartbeats_end_with_the_call(dispatcher, changes):
    before = {*threading.enumerate()}
    message = a_message(**changes)
    try:
        dispatcher.dispatch(message)
    except oslo_messaging.ExpectedException:
        assert changes
    # That of all calls ends with the last one.
    assert len({*threading.enumerate()} - before) <= 1
    assert wait_until(lambda: {*threading.enumerate()} <= before)
    assert message.heartbeats == []


@pytest.mark.parametrize("context", [{"self": 1}, {"deep": json.loads("[" * 600 + "]" * 600)}])
def test_a_context_that_cannot_be_read_disturbs_nobody(transport, caplog, context):
    caplog.set_level(logging.INFO)
    server = RpcServer(transport, "topic", "server", [Endpoint()], 1)
    server.start()
    client = oslo_messaging.get_rpc_client(transport, oslo_messaging.Target(topic="topic"))
    client = client.prepare(version="4.0", timeout=PATIENCE)
    client.cast(context, "ask")
    assert client.call({}, "ask") == []
    server.drain()
    dropped = [each for each in caplog.messages if "Dropped a message" in each]
    kind = "TypeError" if "self" in context else "RecursionError"
    assert dropped == [f"Dropped a message that cannot be read: {kind}"]
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


def test_a_long_name_makes_no_long_line(dispatcher, caplog):
    with caplog.at_level(logging.INFO):
        refusal(dispatcher, method="x" * 10_000)
    (line,) = caplog.messages
    assert line.startswith("Refused a call: Endpoint does not support RPC method xxx")
    assert len(line) < 400


@pytest.mark.parametrize("queue", [None, "", 7, True, [], {"a": 1}, "x" * 256, "ü" * 128])
def test_a_call_that_cannot_be_answered_is_dropped_with_one_line(transport, caplog, queue):
    caplog.set_level(logging.INFO)
    endpoint = Endpoint()
    server = RpcServer(transport, "topic", "server", [endpoint], 1)
    server.start()
    envelope = {"method": "ask", "version": "4.0", "args": {}, "_reply_q": queue}
    with kombu.Connection("memory://") as connection, connection.Producer() as producer:
        for extra in ({"_msg_id": "1"}, {}):
            body = {"oslo.version": "2.0", "oslo.message": json.dumps(envelope | extra)}
            producer.publish(body, exchange=cfg.CONF.control_exchange, routing_key="topic")
    # The cast is handled, the call before it is not.
    assert wait_until(lambda: endpoint.asked == 1)
    server.drain()
    (line,) = [each for each in caplog.messages if "Dropped" in each]
    assert line.startswith("Dropped a call: its _reply_q ")
    assert len(line) < 150
