# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Requests that are taken from a batch of calls: one round, without a thread for each."""

import math
from time import monotonic

import pytest
import sqlalchemy as sa

from inventory.tables import allocations
from scheduler.api.scheduler_endpoint import SchedulerEndpoint
from scheduler.messaging.call import Call
from scheduler.wire.arguments import SelectArguments, encode_select_arguments
from scheduler.wire.context import Deadline, RequestContext
from scheduler.wire.errors import NoValidHost, ServiceUnavailable
from tests.builders import a_request
from tests.databases import a_node, a_uuid, save, serve
from tests.fixtures.daemons.process import wait_until
from tests.unit.scheduler.select_destinations.test_loop_orders import HeldDatabase
from tests.unit.scheduler.select_destinations.test_loop_requests import NEVER, a_scheduler

HOSTS = ("h1", "h2", "h3")


@pytest.fixture
def held(database):
    """Return a database whose transactions can be held up, with room for 20 instances."""
    nodes = [a_node(host, memory_mb=8192, memory_mb_used=0, free_ram_mb=8192) for host in HOSTS]
    save(database, *nodes)
    serve(database, *HOSTS)
    return HeldDatabase(database.engine)


class Cloud:
    """An endpoint, what it has sent as notifications, and the answers of its calls."""

    def __init__(self, database, max_age=NEVER, **terms):
        self.sent, self.answers = [], {}
        self.scheduler = a_scheduler(database, max_age=max_age, **terms)
        self.scheduler.host_cache.refresh_if_older(fresh=True)
        self.endpoint = SchedulerEndpoint(self.scheduler, self)

    def send(self, event, _caller, _request, *_):
        self.sent.append(event)

    def call(self, name, seconds=math.inf, method="select_destinations", version="4.5", **changes):
        asked = SelectArguments(a_request(**changes), [a_uuid(name)], True, True)
        return Call(
            method=method,
            version=version,
            namespace=None,
            args=encode_select_arguments(asked),
            context=RequestContext(f"req-{name}").to_dict(),
            deadline=Deadline(monotonic(), seconds),
            size=0,
            message_id=name,
            reply_queue="replies",
            silence=None,
            queued=0.0,
            expiration=math.inf,
            on_answer=lambda call, answer: self.answers.setdefault(call.message_id, answer),
        )

    def answer(self, name):
        assert wait_until(lambda: name in self.answers)
        return self.answers[name]


def claimed(database):
    query = sa.select(allocations.c.request_id).distinct()
    return {*database.read(lambda connection: connection.scalars(query).all())}


def transactions(database):
    """Return a list that grows with each transaction that writes to nodes."""
    found = []

    def look(_connection, _cursor, statement, *_):
        if statement.startswith("INSERT INTO allocations"):
            found.append(statement)

    sa.event.listen(database.engine, "before_cursor_execute", look)
    return found


def test_what_has_come_together_is_claimed_together(held):
    cloud = Cloud(held)
    held.go.clear()
    names = [f"n{number}" for number in range(5)]
    assert cloud.endpoint.take([cloud.call("first")]) == []
    assert wait_until(lambda: cloud.scheduler.host_cache.nodes_in_flight)
    written = transactions(held)
    assert cloud.endpoint.take([cloud.call(name) for name in names]) == []
    assert cloud.answers == {}
    held.go.set()
    for name in ("first", *names):
        (destinations,) = cloud.answer(name).result
        assert destinations[0]["nova_object.data"]["service_host"] in HOSTS
    assert len(written) == 2
    assert claimed(held) == {f"req-{name}" for name in ("first", *names)}
    assert sorted(cloud.sent) == ["end"] * 6 + ["start"] * 6


def test_a_refusal_is_an_expected_error(held):
    cloud = Cloud(held)
    assert cloud.endpoint.take([cloud.call("large", memory_mb=99_999), cloud.call("small")]) == []
    answer = cloud.answer("large")
    assert isinstance(answer.error, NoValidHost)
    assert answer.is_expected
    assert cloud.answer("small").error is None
    assert sorted(cloud.sent) == ["end", "error", "start", "start"]


@pytest.mark.parametrize(
    "asked",
    [
        {"scheduler_hints": {"different_host": [a_uuid("other")]}},
        {"ignore_hosts": ["h1"]},
        {"extra_specs": {"berthmaster:failover": "required"}},
        {"extra_specs": {"berthmaster:failover": "unheard of"}},
        {"method": "update_aggregates"},
        {"version": "5.0"},
        {"version": None},
    ],
)
def test_what_may_have_to_wait_or_is_wrong_is_left_to_a_thread(held, asked):
    cloud = Cloud(held)
    calls = [cloud.call("one", **asked)]
    assert cloud.endpoint.take(calls) == calls
    assert (cloud.answers, cloud.sent, claimed(held)) == ({}, [], set())


def test_on_old_hosts_all_is_left_to_threads(held):
    cloud = Cloud(held, max_age=0.0)
    calls = [cloud.call("one")]
    assert cloud.endpoint.take(calls) == calls


@pytest.mark.parametrize("args", [{}, {"spec_obj": 1}, {"unheard_of": 1}])
def test_what_cannot_be_read_is_left_to_a_thread_which_refuses_it(held, args):
    cloud = Cloud(held)
    call = cloud.call("one")
    call.args = args
    assert cloud.endpoint.take([call]) == [call]


def test_who_waits_for_a_transaction_that_hangs_is_answered_at_his_deadline(held):
    cloud = Cloud(held)
    held.go.clear()
    assert cloud.endpoint.take([cloud.call("one", seconds=0.5)]) == []
    answer = cloud.answer("one")
    assert isinstance(answer.error, ServiceUnavailable)
    assert answer.is_expected
    assert not cloud.scheduler.host_cache.nodes_in_flight
    assert cloud.endpoint.take([cloud.call("two")]) == []
    held.go.set()
    assert cloud.answer("two").error is None
    # The deadline is looked at before the commit.
    assert claimed(held) == {"req-two"}


def test_without_more_threads_a_call_fails_alone_and_later_ones_are_served(held, monkeypatch):
    cloud = Cloud(held)
    with monkeypatch.context() as patch:
        patch.setattr(cloud.scheduler.loop, "_begin", refuse)
        assert cloud.endpoint.take([cloud.call("one")]) == []
        answer = cloud.answer("one")
        assert isinstance(answer.error, RuntimeError)
        assert not answer.is_expected
    assert cloud.endpoint.take([cloud.call("two")]) == []
    assert cloud.answer("two").error is None
    assert claimed(held) == {"req-two"}


def test_without_a_thread_for_a_step_a_request_fails_alone(held, monkeypatch):
    """It is refused, and would have to wait for the database to be certain."""
    cloud = Cloud(held)
    begin, refused = cloud.scheduler.loop._begin, []

    def refuse_steps(work):
        if getattr(work, "func", work) in (
            cloud.scheduler.loop._run_rounds,
            cloud.scheduler.loop._watch,
        ):
            begin(work)
        else:
            refused.append(work)
            refuse(work)

    with monkeypatch.context() as patch:
        patch.setattr(cloud.scheduler.loop, "_begin", refuse_steps)
        large, small = cloud.call("large", memory_mb=99_999), cloud.call("small")
        assert cloud.endpoint.take([large, small]) == []
        assert isinstance(cloud.answer("large").error, RuntimeError)
        assert cloud.answer("small").error is None
    assert len(refused) == 1
    assert claimed(held) == {"req-small"}


def refuse(_work):
    raise RuntimeError("can't start new thread")


def test_a_lost_claim_is_decided_again(held):
    """Two schedulers that do not know of each other."""
    first, second = Cloud(held), Cloud(held)
    for number in range(30):
        for cloud in (first, second):
            assert cloud.endpoint.take([cloud.call(f"{id(cloud)} {number}")]) == []
    answers = [
        cloud.answer(f"{id(cloud)} {number}") for number in range(30) for cloud in (first, second)
    ]
    placed = [each for each in answers if each.error is None]
    assert all(isinstance(each.error, NoValidHost) for each in answers if each.error is not None)
    assert len(placed) == len(claimed(held))
