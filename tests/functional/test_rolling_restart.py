# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Two schedulers are restarted one after the other under load, and no request is lost."""

import pytest

from inventory.engine import Database
from tests.backends import backends_alike
from tests.fixtures.deployment import Deployment, a_fleet
from tests.fixtures.load import BEFORE_AND_AFTER, Load

ROOM_FOR_ALL = {
    "vcpus": 10**6,
    "memory_mb": 10**9,
    "free_ram_mb": 10**9,
    "local_gb": 10**6,
    "free_disk_mb": 10**9,
    "disk_available_least": 10**6,
}


@pytest.mark.matrix
@pytest.mark.usefixtures("client")
@backends_alike
def test_no_request_is_lost_when_schedulers_are_restarted_in_turn(
    deployment: Deployment, database: Database, backend: str
) -> None:
    a_fleet(database, [f"compute{number}" for number in range(20)], **ROOM_FOR_ALL)
    running = [deployment.scheduler(backend) for _ in range(2)]
    with Load(deployment.transport_url).running() as load:
        load.wait_for_more()
        for old in running:
            deployment.scheduler(backend)
            assert old.stop() == 0, old.log.read_text()[-2000:]
            load.wait_for_more()
    assert not load.failures
    assert len(load.answered) >= 3 * BEFORE_AND_AFTER


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
    assert scheduler.stop() == 0
