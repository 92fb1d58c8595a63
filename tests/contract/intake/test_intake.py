# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What callers get from either intake, one by one and many together."""

import json
import logging
import math
import time
from collections import Counter
from collections.abc import Sequence
from threading import Thread
from typing import Any

import kombu
import pytest

from scheduler.messaging.call import Call
from scheduler.messaging.intake import BATCH, BATCHED, REMEMBERED
from scheduler.wire.errors import NoValidHost
from tests.contract.intake.conftest import Serve, Served, bytes_of, deadline_of, errors
from tests.fixtures.amqp_caller import EXCHANGE, AmqpCaller
from tests.fixtures.daemons.process import PATIENCE, wait_until
from tests.fixtures.daemons.rabbitmq import RabbitMQ


def test_a_call_is_answered(served: Served, caller: AmqpCaller) -> None:
    served.start()
    message = served.ask("one", _context_request_id="req-1", _context_user="alice")
    reply = caller.call(message, served.topic, expiration=PATIENCE)
    assert (reply["result"], reply["failure"], reply["ending"]) == ("answer to one", None, True)
    (context,) = served.endpoint.contexts
    assert (context["request_id"], context["user"]) == ("req-1", "alice")
    assert deadline_of(context) == PATIENCE
    assert bytes_of(context) > 100


def test_an_answer_looks_as_that_of_oslo_messaging(served: Served, caller: AmqpCaller) -> None:
    served.start()
    (found,) = caller.received(caller.send(served.ask("one"), served.topic))
    assert {*found.message} == {"result", "failure", "ending", "_msg_id", "_unique_id"}
    assert found.envelope["oslo.version"] == "2.0"
    assert found.amqp["properties"] == {
        "content_encoding": "utf-8",
        "content_type": "application/json",
        "delivery_mode": 2,
        "headers": {},
        "priority": 0,
    }


@pytest.mark.parametrize("where", ["topic", "server", "fanout"])
def test_casts_come_through_all_queues(served: Served, caller: AmqpCaller, where: str) -> None:
    served.start()
    cast = {"method": "ask", "version": "4.0", "args": {"name": where}}
    if where == "fanout":
        body = {"oslo.version": "2.0", "oslo.message": json.dumps(cast)}
        exchange = kombu.Exchange(f"{served.topic}_fanout", type="fanout", passive=True)
        kombu.Producer(caller._channel, exchange).publish(body)
    else:
        caller.send(cast, served.topic if where == "topic" else f"{served.topic}.server")
    assert wait_until(lambda: served.handles(where))
    assert deadline_of(served.endpoint.contexts[0]) == math.inf
    assert wait_until(lambda: served.intake.in_flight == 0)


def test_an_expected_error_is_sent_and_not_logged(
    served: Served, caller: AmqpCaller, caplog: pytest.LogCaptureFixture
) -> None:
    served.start()
    failure = caller.call(served.ask("", "refuse", args={}), served.topic)["failure"]
    assert (failure["class"], failure["module"]) == ("NoValidHost", NoValidHost.__module__)
    assert failure["kwargs"]["reason"] == "There are not enough hosts available."
    assert "There are not enough hosts" in failure["message"]
    assert any("raise NoValidHost" in line for line in failure["tb"])
    assert errors(caplog) == []


def test_an_unexpected_error_is_sent_and_logged(
    served: Served, caller: AmqpCaller, caplog: pytest.LogCaptureFixture
) -> None:
    served.start()
    failure = caller.call(served.ask("", "fail", args={}), served.topic)["failure"]
    assert (failure["class"], failure["message"]) == ("ZeroDivisionError", "as asked for")
    assert any("as asked for" in line for line in failure["tb"])
    (line,) = errors(caplog)
    assert line.startswith("Exception during message handling")


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"method": "nothing"}, "NoSuchMethod"),
        ({"method": "_lock"}, "NoSuchMethod"),
        ({"method": "asked"}, "NoSuchMethod"),
        ({"method": 7}, "NoSuchMethod"),
        ({"version": "4.6"}, "UnsupportedVersion"),
        ({"version": "3.0"}, "UnsupportedVersion"),
        ({"version": "x"}, "UnsupportedVersion"),
        ({"namespace": "elsewhere"}, "UnsupportedVersion"),
        ({"args": [1]}, "InvalidInput"),
    ],
)
def test_what_is_not_served_is_refused_with_one_line(
    served: Served,
    caller: AmqpCaller,
    caplog: pytest.LogCaptureFixture,
    changes: dict[str, Any],
    error: str,
) -> None:
    served.start()
    failure = caller.call(served.ask("one") | changes, served.topic)["failure"]
    assert failure["class"] == error
    (line,) = [each for each in caplog.messages if "Refused a call" in each]
    assert failure["message"] in line
    assert errors(caplog) == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"[]",
        b"7",
        b'{"oslo.version": "9.0", "oslo.message": "{}"}',
        b'{"oslo.version": "2.0", "oslo.message": "{"}',
        b'{"oslo.version": "2.0", "oslo.message": "' + b"[" * 9999 + b'"}',
    ],
)
def test_an_unreadable_message_is_dropped_and_disturbs_nobody(
    served: Served, caller: AmqpCaller, caplog: pytest.LogCaptureFixture, body: bytes
) -> None:
    served.start()
    caller.send_body(body, served.topic)
    assert caller.call(served.ask("next"), served.topic)["result"] == "answer to next"
    assert served.intake.connected()
    # An empty one is a cast of nothing.
    ours = ("Dropped a message", "skipping it", "Refused a call")
    assert len([each for each in caplog.messages if any(text in each for text in ours)]) == 1


def test_a_call_without_a_queue_for_its_answer_is_dropped(
    served: Served, caller: AmqpCaller, caplog: pytest.LogCaptureFixture
) -> None:
    served.start()
    envelope = served.ask("lost", _msg_id="1", _reply_q=7)
    caller.send_body(json.dumps(envelope), served.topic)
    assert caller.call(served.ask("next"), served.topic)["result"] == "answer to next"
    assert served.endpoint.asked == ["next"]
    assert any("Dropped a call: its _reply_q 7" in each for each in caplog.messages)


def test_a_message_that_comes_twice_is_handled_once(served: Served, caller: AmqpCaller) -> None:
    served.start()
    twice = json.dumps(
        {"method": "ask", "version": "4.0", "args": {"name": "twice"}, "_unique_id": "u1"}
    )
    caller.send_body(twice, served.topic)
    # oslo.messaging remembers 16.
    others = 3 * BATCH if served.kind == BATCHED else 10
    assert others < REMEMBERED
    for number in range(others):
        caller.send(
            {"method": "ask", "version": "4.0", "args": {"name": str(number)}}, served.topic
        )
    caller.send_body(twice, served.topic)
    assert caller.call(served.ask("last"), served.topic)
    assert wait_until(lambda: len(served.endpoint.asked) >= others + 2)
    assert Counter(served.endpoint.asked)["twice"] == 1


def test_a_caller_gets_heartbeats_until_the_answer(served: Served, caller: AmqpCaller) -> None:
    served.start()
    waited = caller.send(served.ask("slow", "wait", _timeout=2), served.topic)
    while len(caller.received_yet(waited)) < 2:
        caller.drain()
    assert not any(each.message["ending"] for each in caller.received_yet(waited))
    served.endpoint.may_answer.set()
    *beats, last = caller.received(waited)
    assert all(each.message["result"] is each.message["failure"] is None for each in beats)
    assert last.message["result"] == "answer to slow"
    # A heartbeat that follows would come before the answer to this.
    time.sleep(1.1)
    caller.call(served.ask("next"), served.topic)
    assert len(caller.received_yet(waited)) == len(beats) + 1


def test_a_call_whose_caller_has_given_up_is_dropped_and_a_cast_is_not(
    served: Served, caller: AmqpCaller, caplog: pytest.LogCaptureFixture
) -> None:
    served.start(max_in_flight=1)
    busy = caller.send(served.ask("busy", "wait"), served.topic)
    assert wait_until(lambda: served.handles("busy"))
    caller.send(served.ask("late", _context_request_id="req-late"), served.topic, expiration=3)
    caller.send({"method": "ask", "version": "4.0", "args": {"name": "cast"}}, served.topic)
    # It is given back once, after a second, and its time begins anew.
    time.sleep(5)
    served.endpoint.may_answer.set()
    assert wait_until(lambda: served.handles("cast"))
    assert not served.handles("late")
    assert caller.reply(busy)["result"]
    (line,) = [each for each in caplog.messages if "Dropped the call 'ask' of req-late" in each]
    assert line.endswith("its caller gave up after 3.0 s")


def test_no_more_are_in_flight_than_asked_for(served: Served, caller: AmqpCaller) -> None:
    served.start(max_in_flight=3)
    sent = [caller.send(served.ask(str(each), "wait"), served.topic) for each in range(9)]
    assert wait_until(lambda: len(served.endpoint.asked) == 3)
    time.sleep(0.5)
    assert len(served.endpoint.asked) == served.intake.in_flight == 3
    served.endpoint.may_answer.set()
    assert all(caller.reply(each)["result"] for each in sent)
    assert wait_until(lambda: served.intake.in_flight == 0)


def test_what_was_received_is_answered_before_a_stop_ends(
    served: Served, caller: AmqpCaller
) -> None:
    served.start(max_in_flight=4)
    served.endpoint.may_answer.set()
    sent = [caller.send(served.ask(str(each), "wait"), served.topic) for each in range(300)]
    assert wait_until(lambda: len(served.endpoint.asked) > 20)
    served.intake.drain()
    handled = len(served.endpoint.asked)
    queue = kombu.Queue(served.topic, EXCHANGE, served.topic, channel=caller._channel)
    _, left, _ = queue.queue_declare(passive=True)
    # Those are for other schedulers.
    assert handled + left == len(sent)
    assert len({*served.endpoint.asked}) == handled
    answered = [each for each in sent[:handled] if caller.reply(each)["result"]]
    assert len(answered) == handled


def test_it_is_connected_from_its_start_on(served: Served) -> None:
    served.open()
    assert not served.intake.connected()
    served.intake.start()
    assert served.intake.connected()
    assert served.intake.alive()


def test_taken_calls_are_answered_by_who_took_them(served: Served, caller: AmqpCaller) -> None:
    served.start(take=served.take)
    waited = caller.send(served.ask("mine", "wait"), served.topic)
    failed = caller.send(served.ask("failed", "wait"), served.topic)
    assert caller.call(served.ask("other"), served.topic)["result"] == "answer to other"
    assert wait_until(lambda: len(served.taken) == 2)
    assert served.endpoint.asked == ["other"]
    assert wait_until(lambda: served.intake.in_flight == 2)

    def answer() -> None:
        first, second = sorted(served.taken, key=lambda call: call.args["name"], reverse=True)
        first.reply({"of": first.args["name"]})
        first.reply("the first answer counts")
        second.fail(NoValidHost("none"), is_expected=True)

    Thread(target=answer).start()
    assert caller.reply(waited)["result"] == {"of": "mine"}
    assert caller.reply(failed)["failure"]["class"] == "NoValidHost"
    assert wait_until(lambda: served.intake.in_flight == 0)
    assert len(caller.received_yet(waited)) == 1


def test_batches_are_what_has_come(served: Served, caller: AmqpCaller) -> None:
    sizes: list[int] = []

    def take(calls: Sequence[Call]) -> Sequence[Call]:
        sizes.append(len(calls))
        return calls

    served.start(100, take)
    served.intake.drain()
    sent = [caller.send(served.ask(str(each)), served.topic) for each in range(150)]
    served.start(100, take)
    assert all(caller.reply(each)["result"] for each in sent)
    assert sum(sizes) == 150
    assert max(sizes) <= BATCH
    if served.kind == BATCHED:
        assert max(sizes) > 10
    assert caller.call(served.ask("alone"), served.topic)
    assert sizes[-1] == 1


def test_an_answer_to_a_queue_that_is_gone_delays_no_others(
    serve: Serve, rabbitmq: RabbitMQ, caller: AmqpCaller, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    served = serve(f"{rabbitmq.transport_url}?kombu_missing_consumer_retry_timeout=2")
    served.start()
    gone = served.ask("gone", _msg_id="1", _reply_q="reply_gone")
    caller.send_body(json.dumps(gone), served.topic)
    assert wait_until(lambda: served.handles("gone"))
    sent = [caller.send(served.ask(str(number)), served.topic) for number in range(20)]
    assert all(caller.reply(each)["result"] for each in sent)
    # It is still waited for.
    assert served.intake.in_flight > 0
    assert wait_until(lambda: served.intake.in_flight == 0)
    assert any("reply_gone" in each for each in caplog.messages)


def test_a_queue_that_comes_back_gets_its_answer(served: Served, caller: AmqpCaller) -> None:
    served.start()
    late = served.ask("late", _msg_id="1", _reply_q=f"{served.topic}_late")
    caller.send_body(json.dumps(late), served.topic)
    assert wait_until(lambda: served.handles("late"))
    time.sleep(0.5)
    queue = kombu.Queue(f"{served.topic}_late", durable=False, auto_delete=True)
    bound = queue(caller._channel)
    bound.declare()
    assert wait_until(lambda: bound.get(no_ack=True))


def test_a_result_that_json_cannot_say(
    served: Served, caller: AmqpCaller, caplog: pytest.LogCaptureFixture
) -> None:
    served.start()
    caller.send(served.ask("", "say_what_json_cannot", args={}), served.topic)
    assert caller.call(served.ask("next"), served.topic)["result"] == "answer to next"
    assert wait_until(lambda: served.intake.in_flight == 0)
    assert any("Can" in each for each in errors(caplog))
