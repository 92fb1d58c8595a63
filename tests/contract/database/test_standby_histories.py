# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""After any history of protected instances, each failure domain may die."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from inventory.engine import Database
from tests.contract.database.standby_cloud import StandbyCloud
from tests.contract.database.standby_machine import StandbyMachine

HISTORIES = settings(
    stateful_step_count=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@pytest.mark.hypothesis
def test_whichever_failure_domain_dies_its_instances_have_places(
    database: Database, tmp_path: Path
) -> None:
    cloud = StandbyCloud(database, tmp_path)
    # The last connection to an SQLite file tidies up when it goes, which takes its time.
    with database.engine.connect():
        run_state_machine_as_test(lambda: StandbyMachine(cloud), settings=HISTORIES)
