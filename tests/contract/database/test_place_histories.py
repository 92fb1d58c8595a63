# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Any history with reserved places leaves usage as the sum, and places to their projects."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from inventory.engine import Database
from tests.contract.database.places_machine import PlacesMachine, configurations

HISTORIES = settings(
    stateful_step_count=30, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@pytest.mark.hypothesis
def test_places_are_for_their_projects_and_cost_nothing(database: Database, tmp_path: Path) -> None:
    confs = configurations(tmp_path)
    with database.engine.connect():
        run_state_machine_as_test(lambda: PlacesMachine(database, confs), settings=HISTORIES)
