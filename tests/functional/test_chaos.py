# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The storm while processes are killed and connections are cut; `make chaos` is the long form."""

from pathlib import Path

import pytest

from benchmarks.check_history import shortened
from benchmarks.storm import rounds
from benchmarks.storm.cloud import Cloud, Fleet
from benchmarks.storm.faults import KINDS
from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.fixtures.deployment import Deployment

# The calm storms of test_storm.py are in the gate.
pytestmark = pytest.mark.matrix

SEED = 1
SCHEDULERS, CALLERS = 4, 200


def test_nothing_is_booked_twice_or_leaks_whatever_breaks(
    deployment: Deployment, rabbitmq: RabbitMQ, mariadb: MariaDB, tmp_path: Path
) -> None:
    cloud = Cloud(deployment, rabbitmq, mariadb, Fleet(hosts=100, vcpus=12))
    cloud.start(SCHEDULERS)
    found = rounds.broken(cloud, tmp_path / "callers.log", SEED, len(KINDS), CALLERS)
    print(f"seed {SEED}: {found.figures.line()}\n{found.summary}")
    print("\n".join(shortened(found.violations)))
    assert not found.violations
    assert set(found.faults) == set(KINDS)
    assert found.figures.placed
