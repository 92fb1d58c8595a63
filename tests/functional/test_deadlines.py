# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A request whose caller has given up is never decided; a cast waits for as long as it takes."""

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest

from inventory.engine import Database
from scheduler.client.scheduler_client import SchedulerClient
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import ServiceUnavailable
from tests.backends import each_backend
from tests.builders import a_request
from tests.fixtures.amqp_caller import AmqpCaller
from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.daemons.process import PATIENCE, Process, wait_until
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.fixtures.deployment import Deployment, a_fleet

# Long enough for a busy machine to take a message, which starts the clock of its deadline.
GIVEN_UP = 2
ONE_AT_A_TIME = {"scheduler": {"max_requests_in_flight": 1}}


class Caller:
    """Asks under names that are found in logs."""

    def __init__(self, client: SchedulerClient) -> None:
        self._client = client

    def cast(self) -> str:
        name, uuid = _names()
        self._client.cast_select_destinations(RequestContext(name), a_request(), [uuid])
        return name

    def begin(self, pool: ThreadPoolExecutor) -> tuple[str, Future[Any]]:
        """Call as somebody who waits for long; return the answer to come."""
        name, uuid = _names()
        call, context = self._client.select_destinations, RequestContext(name)
        return name, pool.submit(call, context, a_request(), [uuid], timeout=PATIENCE)

    def give_up(self) -> str:
        name, uuid = _names()
        with pytest.raises(ServiceUnavailable):
            self._client.select_destinations(
                RequestContext(name), a_request(), [uuid], timeout=GIVEN_UP
            )
        return name


@pytest.fixture
def caller(client: SchedulerClient) -> Caller:
    return Caller(client)


@pytest.fixture
def paused(mariadb: MariaDB) -> Iterator[MariaDB]:
    """A database that a test may let hang."""
    yield mariadb
    mariadb.resume()


def _names() -> tuple[str, str]:
    uuid = str(uuid4())
    return f"req-{uuid}", uuid


def _of(process: Process, request: str) -> list[str]:
    """Return the lines of the log that were written for a request."""
    return [line for line in process.log.read_text().splitlines() if request in line]


def _decided(process: Process, request: str) -> bool:
    return wait_until(lambda: any("Selected" in line for line in _of(process, request)))


@each_backend
def test_what_expires_in_the_queue_is_not_decided(
    deployment: Deployment, database: Database, caller: Caller, backend: str
) -> None:
    a_fleet(database, ["compute1"])
    # Its queue stays, and has nobody who reads it.
    assert deployment.scheduler(backend).stop() == 0
    given_up, patient = caller.give_up(), caller.cast()
    scheduler = deployment.scheduler(backend)
    # It came later.
    assert _decided(scheduler, patient)
    assert not _of(scheduler, given_up)


@each_backend
def test_what_waits_too_long_for_its_turn_is_not_decided(
    deployment: Deployment, database: Database, caller: Caller, paused: MariaDB, backend: str
) -> None:
    a_fleet(database, ["compute1"])
    scheduler = deployment.scheduler(backend, ONE_AT_A_TIME)
    paused.pause()
    first, given_up = caller.cast(), caller.give_up()
    # Whenever the message was taken, at the end of another such wait its time is over.
    caller.give_up()
    patient = caller.cast()
    paused.resume()
    assert _decided(scheduler, patient)
    assert _decided(scheduler, first)
    # By the scheduler, or by the broker that it was given back to.
    for line in _of(scheduler, given_up):
        assert f"Dropped the call 'select_destinations' of {given_up}" in line
        assert line.endswith(f"and its caller gave up after {GIVEN_UP:.1f} s")


@each_backend
def test_a_paused_scheduler_leaves_to_the_broker_what_expired_meanwhile(
    deployment: Deployment, database: Database, caller: Caller, backend: str
) -> None:
    a_fleet(database, ["compute1"])
    scheduler = deployment.scheduler(backend)
    with ThreadPoolExecutor() as pool, scheduler.paused():
        given_up = caller.give_up()
        # It is handed out together with the one that expires, and must not be lost with it.
        patient, answer = caller.begin(pool)
        caller.give_up()
    assert answer.result(PATIENCE)[0][0].nodename == "compute1"
    assert _decided(scheduler, patient)
    assert not _of(scheduler, given_up)
    assert scheduler.has_logged("Gave a call back to the broker")


@each_backend
def test_a_call_that_waited_in_a_broker_that_stamps_messages_is_dropped(
    deployment: Deployment, rabbitmq: RabbitMQ, backend: str
) -> None:
    scheduler = deployment.scheduler(backend)
    ping = {"method": "ping", "namespace": "baseapi", "version": "1.0", "_msg_id": "", "args": {}}
    listening = ping | {"_timeout": GIVEN_UP, "args": {"arg": "silence"}}
    now = int(time.time() * 1000)
    stale, recent = ({"timestamp_in_ms": now - each} for each in (10_000, 0))
    with AmqpCaller(rabbitmq.transport_url) as caller:
        given_up = caller.send(listening, expiration=1800, headers=stale)
        # One whose clock is wrong hands out what would have expired.
        answered = caller.call(ping | {"args": {"arg": "late"}}, expiration=5, headers=stale)
        assert answered["result"]["arg"] == "late"
        answered = caller.call(listening, expiration=PATIENCE, headers=recent)
        assert answered["result"]["arg"] == "silence"
        assert not caller.received_yet(given_up)
    assert wait_until(lambda: scheduler.has_logged("Dropped the call 'ping' of None: it waited 1"))
