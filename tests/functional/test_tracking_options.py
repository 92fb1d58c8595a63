# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What Nova's services tell, with schedulers that are configured otherwise or differently later."""

import signal
from uuid import uuid4

import sqlalchemy as sa

from inventory import aggregates, tables
from inventory.engine import Database
from scheduler.client.scheduler_client import SchedulerClient
from tests.builders import INSTANCE
from tests.fixtures.daemons.process import wait_until
from tests.fixtures.deployment import Deployment, Options, a_fleet
from tests.functional.test_tracking import (
    HOSTS,
    NAME,
    OPTIONS,
    connected,
    elsewhere,
    place,
    tell_and_read,
    unnoticed,
)

CLAIMING: Options = OPTIONS | {"claims": {"enabled": True}}


def test_what_hosts_tell_is_ignored_when_instances_are_no_longer_tracked(
    deployment: Deployment, database: Database, client: SchedulerClient
) -> None:
    a_fleet(database, HOSTS)
    scheduler = deployment.scheduler("threading", OPTIONS, name=NAME)
    told = "update_instance_info of compute1"
    with connected(deployment, scheduler) as teller:
        assert elsewhere(client, "compute1")
        teller.tell("cast_update_instance_info", told)
        off = {**OPTIONS["filter_scheduler"], "track_instance_changes": False}
        deployment.write_config(NAME, OPTIONS | {"filter_scheduler": off})
        teller.scheduler.send(signal.SIGHUP)
        assert wait_until(lambda: "Configuration read again" in teller.log())
        # What was told before is read about.
        assert elsewhere(client, "compute1")
        unnoticed(database, INSTANCE)
        teller.send("cast_update_instance_info")
        # Sent later, and so as a rule taken in later.
        teller.tell("cast_update_aggregates", "update_aggregates: 1")
        assert elsewhere(client, "compute1")
        assert teller.log().count(told) == 1


def test_aggregates_that_were_told_outlive_complete_readings_with_claims(
    deployment: Deployment, database: Database, client: SchedulerClient
) -> None:
    a_fleet(database, HOSTS)
    changed: Options = {"scheduler": {"view_reload_interval": 1}}
    scheduler = deployment.scheduler("threading", CLAIMING | changed)
    with connected(deployment, scheduler) as teller:
        teller.tell("cast_update_aggregates", "update_aggregates: 1")

        def readings() -> int:
            place(client, "compute3")
            return teller.log().count("Read all ")

        first = readings()
        assert wait_until(lambda: readings() >= first + 2)
        for _ in range(2):
            assert place(client, *HOSTS, availability_zone="az1") in ("compute1", "compute2")
            # Whatever else the tables get, it is another aggregate.
            database.write(lambda c: aggregates.create(c, str(uuid4()), ["compute3"], {}))


def test_a_host_that_tells_of_its_instances_is_read_again_before_claims(
    deployment: Deployment, database: Database, client: SchedulerClient
) -> None:
    a_fleet(database, HOSTS)
    scheduler = deployment.scheduler(options=CLAIMING)
    with connected(deployment, scheduler) as teller:
        tell_and_read(teller, client, database)


def test_the_claim_of_an_instance_that_its_host_has_deleted_is_released(
    deployment: Deployment, database: Database, client: SchedulerClient
) -> None:
    a_fleet(database, HOSTS)
    scheduler = deployment.scheduler(options=CLAIMING)
    query = sa.select(tables.allocations.c.host).where(
        tables.allocations.c.instance_uuid == INSTANCE
    )

    def claimed() -> list[str]:
        return list(database.read(lambda connection: connection.scalars(query).all()))

    with connected(deployment, scheduler) as teller:
        assert place(client, "compute1", uuid=INSTANCE) == "compute1"
        assert claimed() == ["compute1"]
        assert not elsewhere(client, "compute1")
        teller.send("cast_delete_instance_info")
        assert wait_until(lambda: not claimed())
        assert wait_until(lambda: elsewhere(client, "compute1"))
