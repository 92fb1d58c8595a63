# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A round of three storms each; `make chaos` plays all storms, and for longer."""

from pathlib import Path

import pytest

from benchmarks.check_history import shortened
from benchmarks.storm import cluster, rounds
from benchmarks.storm.cloud import Cloud, Fleet
from benchmarks.storm.cluster import ClusterCloud, MemberFaults
from benchmarks.storm.faults import KINDS
from benchmarks.storm.rounds import Round
from tests.fixtures.daemons.galera import Galera
from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.daemons.process import Guard
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.fixtures.deployment import Deployment

# The calm storms of test_storm.py are in the gate.
pytestmark = pytest.mark.matrix

SEED = 1
SCHEDULERS, CALLERS = 4, 200
# Much room, so that zones and not figures decide.
ROOMY = Fleet(hosts=80, vcpus=200, memory_mb=1_000_000, local_gb=100_000)
# For how long operators change zones, in seconds.
QUIET = 10.0


def in_order(found: Round) -> bool:
    """Tell whether something was placed and nothing violated; print what was."""
    print(f"seed {SEED}: {found.figures.line()}\n{found.summary}")
    print("\n".join(shortened(found.violations)))
    return bool(found.figures.placed) and not found.violations


def test_nothing_is_booked_twice_or_leaks_whatever_breaks(
    deployment: Deployment, rabbitmq: RabbitMQ, mariadb: MariaDB, tmp_path: Path
) -> None:
    cloud = Cloud(deployment, rabbitmq, mariadb, Fleet(hosts=100, vcpus=12))
    cloud.start(SCHEDULERS)
    found = rounds.broken(cloud, tmp_path / "callers.log", SEED, len(KINDS), CALLERS)
    assert in_order(found)
    assert set(found.faults) == set(KINDS)


def test_zones_hold_while_operators_change_them(
    deployment: Deployment, rabbitmq: RabbitMQ, mariadb: MariaDB, tmp_path: Path
) -> None:
    cloud = Cloud(deployment, rabbitmq, mariadb, ROOMY)
    cloud.start(SCHEDULERS)
    assert in_order(rounds.ordered(cloud, tmp_path, SEED, QUIET))


def test_zones_hold_while_members_of_a_cluster_break(
    rabbitmq: RabbitMQ, galera: Galera, tmp_path: Path
) -> None:
    url = galera.members[0].create_database("storm")
    with Guard() as guard:
        deployment = Deployment(tmp_path, guard, rabbitmq.transport_url, url)
        deployment.make_tables()
        cloud = ClusterCloud(deployment, rabbitmq, galera, ROOMY)
        cloud.start(len(galera.members))
        breaker = MemberFaults(cloud, SEED, len(cluster.KINDS))
        found = rounds.ordered_and_broken(cloud, tmp_path, SEED, breaker)
    assert in_order(found)
    assert set(found.faults) == set(cluster.KINDS)
