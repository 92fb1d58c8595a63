# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Any history of claims, guests and audits leaves the database as the sums of it say."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from inventory.engine import Database
from tests.contract.database.claims_fleet import Agents
from tests.contract.database.claims_machine import ClaimsMachine

HISTORIES = settings(
    stateful_step_count=50, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@pytest.mark.hypothesis
def test_usage_is_always_the_sum_of_what_is_there(database: Database, tmp_path: Path) -> None:
    agents = Agents(tmp_path)
    # The last connection to an SQLite file tidies up when it goes, which takes its time.
    with database.engine.connect():
        run_state_machine_as_test(lambda: ClaimsMachine(database, agents), settings=HISTORIES)
