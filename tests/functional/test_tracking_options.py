# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What Nova's services tell, with schedulers that are configured otherwise or differently later."""

import signal
from uuid import uuid4

from inventory import aggregates
from inventory.engine import Database
from scheduler.client.scheduler_client import SchedulerClient
from tests.builders import INSTANCE, a_group
from tests.fixtures.daemons.process import wait_until
from tests.fixtures.deployment import Deployment, Options, a_fleet
from tests.functional.test_tracking import (
    HOSTS,
    NAME,
    OPTIONS,
    connected,
    disagree_and_agree,
    elsewhere,
    place,
)


def test_instances_are_forgotten_and_ignored_when_they_are_no_longer_tracked(
    deployment: Deployment, database: Database, client: SchedulerClient
) -> None:
    a_fleet(database, HOSTS)
    scheduler = deployment.scheduler("threading", OPTIONS, name=NAME)
    with connected(deployment, scheduler) as teller:
        group = a_group("anti-affinity", members=[INSTANCE])
        teller.tell("cast_update_instance_info", "info of compute1: 1 instance")
        assert place(client, "compute1", instance_group=group) is None
        off = {**OPTIONS["filter_scheduler"], "track_instance_changes": False}
        deployment.write_config(NAME, OPTIONS | {"filter_scheduler": off})
        teller.scheduler.send(signal.SIGHUP)
        assert wait_until(lambda: place(client, "compute1", instance_group=group), 20)
        teller.send("cast_update_instance_info")
        # Sent later, and so as a rule taken in later.
        teller.tell("cast_update_aggregates", "update_aggregates: 1")
        assert place(client, "compute1", instance_group=group) == "compute1"
        assert teller.log().count("info of compute1: 1 instance") == 1


def test_what_was_told_outlives_complete_readings_with_claims(
    deployment: Deployment, database: Database, client: SchedulerClient
) -> None:
    a_fleet(database, HOSTS)
    changed: Options = {"claims": {"enabled": True}, "scheduler": {"view_reload_interval": 1}}
    scheduler = deployment.scheduler("threading", {**OPTIONS, **changed})
    with connected(deployment, scheduler) as teller:
        teller.tell("cast_update_aggregates", "update_aggregates: 1")
        teller.tell("cast_update_instance_info", "info of compute1: 1 instance")

        def readings() -> int:
            place(client, "compute3")
            return teller.log().count("Read all ")

        first = readings()
        assert wait_until(lambda: readings() >= first + 2, 20)
        for _ in range(2):
            assert place(client, *HOSTS, availability_zone="az1") in ("compute1", "compute2")
            assert not elsewhere(client, "compute1")
            # Whatever else the tables get, it is another aggregate.
            database.write(lambda c: aggregates.create(c, str(uuid4()), ["compute3"], {}))


def test_a_host_that_lists_other_instances_is_read_again_before_claims(
    deployment: Deployment, database: Database, client: SchedulerClient
) -> None:
    a_fleet(database, HOSTS)
    scheduler = deployment.scheduler(options=OPTIONS | {"claims": {"enabled": True}})
    with connected(deployment, scheduler) as teller:
        disagree_and_agree(teller, client, database)
