# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Until when somebody waits for an answer, by what the broker says of the message."""

import math
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest

from scheduler.rpc import deadlines
from scheduler.rpc.deadlines import Deadline


class Message(dict[str, Any]):
    """A message as oslo.messaging hands it on, with what the broker said of it."""

    def __init__(self, properties: Any) -> None:
        super().__init__()
        self._raw_message = SimpleNamespace(properties=properties)


def incoming(properties: Any, reply_q: str | None = "reply_1") -> SimpleNamespace:
    return SimpleNamespace(ctxt={}, message=Message(properties), reply_q=reply_q)


def test_a_call_is_in_vain_when_its_message_has_expired() -> None:
    assert deadlines.stamp(incoming({"expiration": "1500"})).seconds == 1.5


@pytest.mark.parametrize(("longest", "seconds"), [(1.0, 1.0), (50.0, 30.0)])
def test_the_shorter_of_expiration_and_longest_wait_counts(longest: float, seconds: float) -> None:
    assert deadlines.stamp(incoming({"expiration": "30000"}), longest).seconds == seconds


@pytest.mark.parametrize(
    "properties",
    [{}, None, {"expiration": None}, {"expiration": "soon"}, {"expiration": "9" * 400}],
)
def test_without_a_readable_expiration_only_the_longest_wait_counts(properties: Any) -> None:
    assert deadlines.stamp(incoming(properties)).seconds == math.inf
    assert deadlines.stamp(incoming(properties), 50.0).seconds == 50.0


def test_a_message_that_does_not_show_its_properties_has_no_expiration() -> None:
    message = SimpleNamespace(ctxt={}, message={}, reply_q="reply_1")
    assert deadlines.stamp(message).seconds == math.inf


@pytest.mark.parametrize("reply_q", [None, ""])
def test_nobody_gives_up_on_a_cast(reply_q: str | None) -> None:
    cast = incoming({"expiration": "1"}, reply_q)
    assert deadlines.stamp(cast, 50.0).seconds == math.inf
    assert not Deadline.of(cast.ctxt).passed()


def test_the_endpoint_finds_the_deadline_in_the_context() -> None:
    call, before = incoming({"expiration": "1000"}), monotonic()
    stamped = deadlines.stamp(call)
    assert Deadline.of(call.ctxt) is stamped
    assert before <= stamped.taken <= monotonic()


def test_a_deadline_that_a_caller_invents_counts_for_nothing() -> None:
    call = incoming({"expiration": "1000"})
    call.ctxt["berthmaster.deadline"] = {"taken": 0, "seconds": 0}
    assert Deadline.of(call.ctxt).left() == math.inf
    assert deadlines.stamp(call) is Deadline.of(call.ctxt)


def test_a_deadline_passes() -> None:
    gone, there = Deadline(monotonic() - 3, 2.0), Deadline(monotonic() - 3, 60.0)
    assert gone.passed()
    assert gone.left() < 0
    assert gone.waited() >= 3
    assert not there.passed()
    assert 50 < there.left() <= 57
