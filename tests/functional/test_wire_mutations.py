# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Whatever becomes of a captured message on its way, the scheduler lives on and leaks no claim."""

import json
import re
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given

from tests.backends import ALIKE
from tests.fixtures.captured_fleet import ALL_FILTERS, Replaying, replaying
from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.mutations import MESSAGE_ID, MUTATING, REPLY_QUEUE, UNIQUE_ID, hostile_bodies, paths
from tests.unit.scheduler.wire import wire_samples

OPTIONS = {
    "filter_scheduler": {"enabled_filters": ",".join(ALL_FILTERS)},
    # One at a time: what is answered later was taken later, so that nothing has to be waited for.
    "scheduler": {"max_requests_in_flight": 1},
    # Answers for queues that nobody has.
    "oslo_messaging_rabbit": {"kombu_missing_consumer_retry_timeout": 0},
}
SELECTS, CASTS = wire_samples.names("call_*select_destinations*"), wire_samples.names("cast_*")
OTHERS = sorted({*wire_samples.names("call_*")} - {*SELECTS})
# Of the log, one of a traceback too.
LINE = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \d+ [A-Z]+ [\w.-]+ [^\x00-\x1f\x7f]{,6000}"
)
MORE_THREADS = 8
PING = wire_samples.sample("call_baseapi_ping")["message"]
# A context that is deeper may be too deep to be copied.
COPIED = 200
FAILURES = {
    "nova.exception.NoValidHost",
    "nova.exception.InvalidInput",
    "oslo_messaging.rpc.dispatcher.NoSuchMethod",
    "oslo_messaging.rpc.dispatcher.UnsupportedVersion",
    "builtins.TypeError",
}


def _messages(names: list[str]) -> list[dict[str, Any]]:
    return [wire_samples.sample(name)["message"] for name in names]


@pytest.fixture(scope="module", params=ALIKE)
def served(
    request: pytest.FixtureRequest,
    rabbitmq: RabbitMQ,
    mariadb: MariaDB,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Replaying]:
    directory = tmp_path_factory.mktemp(f"mutations-{request.param}")
    with replaying(rabbitmq, mariadb, directory, OPTIONS, request.param) as found:
        found.caller.send_body(b"{")
        found.caller.call(PING)
        threads = found.scheduler.threads()
        yield found
        # One that handles requests, two that claim, and those of two connections for answers.
        assert found.scheduler.threads() <= threads + MORE_THREADS
        # A child that died would have begun anew under its parent.
        log = found.scheduler.log.read_text(errors="surrogateescape")
        assert log.count("serves select_destinations") == 1
        _, lines = log.split("serves select_destinations\n")
        assert [line for line in lines.split("\n")[:-1] if not LINE.fullmatch(line)] == []
        assert "skipping it.\n" not in lines
        assert "Dropped a message that cannot be read: " in lines
        # Nothing that came has left anything behind that would not end.
        assert found.scheduler.stop() == 0


@given(hostile_bodies(_messages(SELECTS)))
@MUTATING
def test_damaged_requests(served: Replaying, body: bytes) -> None:
    _survives(served, body)


@given(hostile_bodies(_messages(OTHERS)))
@MUTATING
def test_other_damaged_calls(served: Replaying, body: bytes) -> None:
    _survives(served, body)


@given(hostile_bodies(_messages(CASTS)))
@MUTATING
def test_damaged_casts(served: Replaying, body: bytes) -> None:
    _survives(served, body)


def _survives(served: Replaying, body: bytes) -> None:
    """Check what comes of a body: an answer and its claims, none of either, and the next call."""
    caller = served.caller
    ids = {MESSAGE_ID: uuid4().hex, UNIQUE_ID: uuid4().hex, REPLY_QUEUE: caller.reply_queue}
    for name, text in ids.items():
        body = body.replace(name.encode(), text.encode())
    caller.send_body(body)
    assert caller.call(PING)["result"] == {"service": "scheduler", "arg": "hello"}
    assert served.scheduler.status is None
    message = _as_oslo_messaging_reads(body)
    answers = [each.message for each in caller.received_yet(ids[MESSAGE_ID])]
    caller.forget()
    if [message.get(name) for name in ("_msg_id", "_unique_id", "_reply_q")] == [*ids.values()]:
        (answer,) = answers
        assert answer["ending"]
        _check(served, answer, message)
    served.fleet.release()


def _check(served: Replaying, answer: dict[str, Any], message: dict[str, Any]) -> None:
    """Check that an answer is one that callers know, and claimed if it is a destination."""
    if answer["failure"] is not None:
        failure = json.loads(answer["failure"])
        assert f"{failure['module']}.{failure['class']}" in FAILURES, failure
    is_destination = message.get("method") == "select_destinations" and answer["failure"] is None
    served.fleet.check(message.get("args"), answer["result"] if is_destination else None)


def _as_oslo_messaging_reads(body: bytes) -> dict[str, Any]:
    """Return the message in a body, or an empty one where it may be dropped."""
    try:
        envelope = json.loads(body.decode())
        message = envelope
        if isinstance(envelope, dict) and {"oslo.version", "oslo.message"} <= envelope.keys():
            if envelope["oslo.version"] != "2.0":
                return {}
            message = json.loads(envelope["oslo.message"])
    except (ValueError, TypeError, RecursionError):
        return {}
    if not isinstance(message, dict):
        return {}
    # It copies the context, and hands it on as keyword arguments of a method.
    context = {name: each for name, each in message.items() if name.startswith("_context_")}
    if "_context_self" in context or max(map(len, paths(context))) > COPIED:
        return {}
    # A caller that is so impatient may have gone before its turn.
    period = message.get("_timeout")
    return {} if isinstance(period, (int, float)) and 0 < period < 60 else message
