# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""200 callers at once, four schedulers of both backends, and not one slot given twice.

Checked are the callers' log and the database, by themselves; see benchmarks.check_history.
"""

from collections.abc import Iterator
from pathlib import Path

import kombu
import pytest

from benchmarks.check_history import shortened
from benchmarks.history import Group
from benchmarks.storm import rounds, wishes
from benchmarks.storm.cloud import Cloud, Fleet
from benchmarks.storm.rounds import Round
from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.daemons.process import Guard
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.fixtures.deployment import Deployment

SEED = 1
SCHEDULERS, CALLERS = 4, 200
HOSTS, SLOTS = 6, 80
# What has room is 95 % of it.
ASKED = round(HOSTS * SLOTS / 0.95)
GROUPS, MEMBERS = 50, 8


@pytest.fixture(scope="module")
def cloud(
    rabbitmq: RabbitMQ, mariadb: MariaDB, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cloud]:
    """Schedulers and an agent that plays the hosts, for one storm after the other."""
    with kombu.Connection(rabbitmq.transport_url.replace("rabbit://", "amqp://")) as connection:
        connection.channel().queue_delete("scheduler")
    with Guard() as guard:
        directory = tmp_path_factory.mktemp("storm")
        url = mariadb.create_database(directory.name)
        deployment = Deployment(directory, guard, rabbitmq.transport_url, url)
        deployment.make_tables()
        found = Cloud(deployment, rabbitmq, mariadb, Fleet(HOSTS, SLOTS))
        found.start(SCHEDULERS)
        yield found


def in_order(found: Round) -> bool:
    """Tell whether nothing was violated, and print the figures, or what was."""
    print(f"seed {SEED}: {found.figures.line()}\n{found.summary}")
    print("\n".join(shortened(found.violations)))
    return not found.violations


def test_all_that_has_room_is_placed_and_nothing_else(cloud: Cloud, tmp_path: Path) -> None:
    asked = wishes.slots(SEED, ASKED)
    found = rounds.calm(cloud, tmp_path / "slots.log", asked, CALLERS, placed=HOSTS * SLOTS)
    assert in_order(found)
    assert found.figures.placed == HOSTS * SLOTS
    assert found.figures.refused == ASKED - HOSTS * SLOTS


def test_members_of_groups_keep_apart_or_together(cloud: Cloud, tmp_path: Path) -> None:
    asked = wishes.grouped(SEED, GROUPS, MEMBERS)
    groups = {each.group for each in asked if each.group}
    assert len(groups) == GROUPS
    # There are fewer hosts than members, so that they meet, and each host has room for all.
    room = sum(min(MEMBERS, _most(each)) for each in groups)
    found = rounds.calm(cloud, tmp_path / "groups.log", iter(asked), CALLERS, placed=room)
    assert in_order(found)
    assert found.figures.refused == GROUPS * MEMBERS - room


def _most(group: Group) -> int:
    """Return how many members there can be."""
    return MEMBERS if group.policy == wishes.AFFINITY else HOSTS * group.most
