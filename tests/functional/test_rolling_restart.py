# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Two schedulers are restarted one after the other under load, and no request is lost."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import oslo_messaging
import pytest
from oslo_config import cfg

from inventory.engine import Database
from scheduler.client.scheduler_client import SchedulerClient
from scheduler.wire.context import RequestContext
from tests.backends import each_backend
from tests.builders import a_request
from tests.fixtures.daemons.process import wait_until
from tests.fixtures.deployment import Deployment, a_fleet

CALLERS = 8
BEFORE_AND_AFTER = 50
ROOM_FOR_ALL = {
    "vcpus": 10**6,
    "memory_mb": 10**9,
    "free_ram_mb": 10**9,
    "local_gb": 10**6,
    "free_disk_mb": 10**9,
    "disk_available_least": 10**6,
}


class Load:
    """Callers that ask again as soon as they are answered, and count answers and failures."""

    def __init__(self, transport_url: str) -> None:
        self._url = transport_url
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._call) for _ in range(CALLERS)]
        self.answered = 0
        self.failures: list[Exception] = []

    @contextmanager
    def running(self) -> Iterator["Load"]:
        for thread in self._threads:
            thread.start()
        try:
            yield self
        finally:
            self._stopped.set()
            for thread in self._threads:
                thread.join()

    def wait_for_more(self) -> None:
        """Wait for as many answers again, so that the load is seen to go on."""
        wanted = self.answered + BEFORE_AND_AFTER
        assert wait_until(lambda: self.answered >= wanted or self.failures, 30)

    def _call(self) -> None:
        transport = oslo_messaging.get_rpc_transport(cfg.CONF, url=self._url)
        client = SchedulerClient(cfg.CONF, transport)
        while not self._stopped.is_set():
            try:
                client.select_destinations(
                    RequestContext(), a_request(vcpus=1), [str(uuid4())], timeout=25
                )
                self.answered += 1
            except Exception as error:
                self.failures.append(error)
        client.close()


@pytest.mark.usefixtures("client")
@each_backend
def test_no_request_is_lost_when_schedulers_are_restarted_in_turn(
    deployment: Deployment, database: Database, backend: str
) -> None:
    a_fleet(database, [f"compute{number}" for number in range(20)], **ROOM_FOR_ALL)
    running = [deployment.scheduler(backend) for _ in range(2)]
    with Load(deployment.transport_url).running() as load:
        load.wait_for_more()
        for old in running:
            deployment.scheduler(backend)
            assert old.stop(timeout=25) == 0, old.log.read_text()[-2000:]
            load.wait_for_more()
    assert not load.failures
    assert load.answered >= 3 * BEFORE_AND_AFTER


@pytest.mark.usefixtures("client")
def test_several_workers_share_the_load_and_end_together(
    deployment: Deployment, database: Database
) -> None:
    a_fleet(database, ["compute1"], **ROOM_FOR_ALL)
    scheduler = deployment.scheduler("threading", {"scheduler": {"workers": 2}})
    with Load(deployment.transport_url).running() as load:
        load.wait_for_more()
    assert not load.failures
    assert scheduler.log.read_text().count("serves select_destinations") == 2
    assert scheduler.stop(timeout=25) == 0
