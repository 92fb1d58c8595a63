# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What is around requests: errors, casts, the base API, signs of life during a long call."""

import json
from collections.abc import Iterator
from typing import Any

import kombu
import pytest

from tests.fixtures.amqp_caller import AmqpCaller, Received
from tests.fixtures.captured_fleet import Replaying, replaying
from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.daemons.process import wait_until
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.unit.scheduler.wire import wire_samples

ERRORS = [name.replace("reply_", "call_", 1) for name in wire_samples.names("reply_error_*")]
PING_DISABLED = "call_oslo_rpc_server_ping_disabled"
# Methods that were invented for the capture, and those of another service.
NOT_OURS = {
    "call_error_unexpected_valueerror": ("NoSuchMethod", "RPC method ref_boom"),
    "call_monitored_slow_method": ("NoSuchMethod", "RPC method ref_slow"),
    "call_conductor_object_backport_versions_full": ("UnsupportedVersion", "RPC version 3.0"),
    "call_conductor_object_backport_versions_minimal": ("UnsupportedVersion", "RPC version 3.0"),
}
BASE_API = ["call_baseapi_ping", "call_baseapi_get_backdoor_port"]
REFUSED = sorted({*ERRORS, PING_DISABLED} - {*NOT_OURS})
# What the log says when a cast has been taken in.
TOLD = {
    "update_aggregates": "Received update_aggregates: 1 aggregate",
    "delete_aggregate": "Received delete_aggregate: 00000000-0000-0000-2222-000000000001",
    "update_instance_info": "Received update_instance_info of compute1",
    "delete_instance_info": "Received delete_instance_info of compute1: instance 00000000-0000-",
    "sync_instance_info": "Received sync_instance_info of compute1: {instance_uuids}",
}
PLAIN = "call_select_destinations_4.5_objects_no_alternates"


@pytest.fixture(scope="module")
def served(
    rabbitmq: RabbitMQ, mariadb: MariaDB, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Replaying]:
    directory = tmp_path_factory.mktemp("protocol")
    with replaying(rabbitmq, mariadb, directory, {"DEFAULT": {"debug": True}}) as found:
        yield found


@pytest.fixture
def caller(served: Replaying) -> AmqpCaller:
    return served.caller


def _answer(caller: AmqpCaller, name: str) -> Received:
    (reply,) = caller.received(caller.replay(wire_samples.sample(name)))
    captured = wire_samples.sample(name.replace("call_", "reply_", 1))
    assert reply.amqp == captured["amqp"] | {"routing_key": caller.reply_queue}
    return reply


def _failure(message: dict[str, Any]) -> dict[str, Any]:
    """Return a failure without its traceback."""
    assert message["result"] is None
    failure = json.loads(message["failure"])
    assert isinstance(failure.pop("tb"), list)
    return failure


def test_every_captured_call_is_replayed_by_some_test() -> None:
    selects = wire_samples.names("call_*select_destinations*")
    assert {*selects, *REFUSED, *NOT_OURS, *BASE_API} == {*wire_samples.names("call_*")}


@pytest.mark.parametrize("name", REFUSED)
def test_an_error_of_the_protocol_is_as_it_was(served: Replaying, name: str) -> None:
    reply = _answer(served.caller, name)
    captured = wire_samples.sample(name.replace("call_", "reply_", 1))["message"]
    assert reply.message.keys() == captured.keys()
    assert _failure(reply.message) == _failure(captured)
    assert "Traceback" not in _log(served)


@pytest.mark.parametrize("name", NOT_OURS)
def test_what_is_not_served_is_refused_as_oslo_messaging_does(served: Replaying, name: str) -> None:
    failure = served.caller.call(wire_samples.sample(name)["message"])["failure"]
    kind, text = NOT_OURS[name]
    assert (failure["class"], failure["module"]) == (kind, "oslo_messaging.rpc.dispatcher")
    assert text in failure["message"]
    assert f"Refused a call: {failure['message']}" in _log(served)
    assert "Traceback" not in _log(served)


@pytest.mark.parametrize("name", BASE_API)
def test_base_api(caller: AmqpCaller, name: str) -> None:
    captured = wire_samples.sample(name.replace("call_", "reply_", 1))["message"]
    message = _answer(caller, name).message
    if "backdoor" in name:
        # There is none here.
        captured["result"] = None
    ids = ("_msg_id", "_unique_id")
    assert {**message, **dict.fromkeys(ids)} == {**captured, **dict.fromkeys(ids)}


def test_the_broker_has_what_clients_declare(served: Replaying) -> None:
    topology = wire_samples.sample("broker_topology")
    kinds = ("durable", "auto_delete")
    url = served.deployment.transport_url.replace("rabbit://", "amqp://")
    with kombu.Connection(url) as connection:
        channel = connection.channel()
        # It refuses to declare what there is in another way.
        for each in topology["exchanges"]:
            options = {kind: each[kind] for kind in kinds}
            kombu.Exchange(each["name"], each["type"], channel=channel, **options).declare()
        for each in topology["queues"]:
            if each["name"] in ("scheduler", "scheduler.scheduler1"):
                channel.queue_declare(each["name"], passive=True)
                options = {kind: each[kind] for kind in kinds}
                channel.queue_declare(each["name"], arguments=each["arguments"], **options)


@pytest.mark.parametrize("version", ["4.0", "4.1", "4.2"])
def test_versions_that_no_client_sends_have_the_form_of_the_first(
    caller: AmqpCaller, version: str
) -> None:
    reply = caller.call(
        wire_samples.sample("call_select_destinations_4.0")["message"] | {"version": version}
    )
    assert reply["failure"] is None
    assert [each.keys() for each in reply["result"]] == 2 * [{"host", "nodename", "limits"}]


def test_a_message_without_a_version_counts_as_1_0(caller: AmqpCaller) -> None:
    message = wire_samples.sample(PLAIN)["message"]
    del message["version"]
    failure = caller.call(message)["failure"]
    assert failure["class"] == "UnsupportedVersion"
    assert "version 1.0" in failure["message"]


def test_a_context_may_say_more(caller: AmqpCaller) -> None:
    more = {
        "_context_trace_info": {"hmac_key": "k", "base_id": "b", "parent_id": "p"},
        "_context_traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "_context_tracestate": "",
        "_context_of_a_later_release": [{}],
    }
    assert caller.call(wire_samples.sample(PLAIN)["message"] | more)["failure"] is None


@pytest.mark.parametrize("method", ["_refuse_unknown", "__init__", "_selector", "target"])
def test_what_is_not_for_callers_cannot_be_called(caller: AmqpCaller, method: str) -> None:
    failure = caller.call(wire_samples.sample(PLAIN)["message"] | {"method": method, "args": {}})[
        "failure"
    ]
    assert failure["class"] == "NoSuchMethod"


@pytest.mark.parametrize("name", wire_samples.names("cast_*"))
def test_a_captured_cast_is_taken(served: Replaying, name: str) -> None:
    sample = wire_samples.sample(name)
    method, arguments = sample["message"]["method"], sample["message"]["args"]
    expected = TOLD[method].format(**{key: _length(each) for key, each in arguments.items()})
    before = len(_log(served))
    assert served.caller.replay(sample) is None
    assert wait_until(lambda: expected in _log(served)[before:]), _log(served)[-3000:]
    assert "Traceback" not in _log(served)
    assert sample["message"]["_context_auth_token"] not in _log(served)


def test_a_long_call_gives_signs_of_life_to_callers_that_want_them(
    served: Replaying, mariadb: MariaDB
) -> None:
    caller, message = served.caller, wire_samples.sample(PLAIN)["message"]
    silent = {key: each for key, each in message.items() if key != "_timeout"}
    mariadb.pause()
    try:
        monitored = caller.send(message | {"_timeout": 2})
        # The second one is what clients before Stein send.
        others = [caller.send(message | {"_timeout": None}), caller.send(silent)]
        others.append(caller.send(message | {"_timeout": 1}))
        while len(caller.received_yet(monitored)) < 2:
            caller.drain()
    finally:
        mariadb.resume()
    *signs, last = caller.received(monitored)
    captured = wire_samples.sample("reply_monitored_slow_method")["messages"]
    for ours, theirs in ((signs[0], captured[0]), (signs[1], captured[1]), (last, captured[2])):
        ids = {"_msg_id": monitored, "_unique_id": ours.message["_unique_id"]}
        expected = theirs["message"] | ids
        if ours is last:
            expected["result"] = last.message["result"]
        assert ours.message == expected
        assert ours.amqp == theirs["amqp"] | {"routing_key": caller.reply_queue}
    assert last.message["result"]
    for each in others:
        assert [found.message["ending"] for found in caller.received(each)] == [True]


def _log(served: Replaying) -> str:
    return served.scheduler.log.read_text(errors="replace")


def _length(value: Any) -> int:
    """Return how many items a list or a list object has."""
    if isinstance(value, dict):
        value = value["nova_object.data"].get("objects", ())
    return len(value)
