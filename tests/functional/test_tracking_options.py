# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tracking casts of Nova's services, to schedulers with other options or with changed ones."""

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
    cast_and_read,
    connected,
    elsewhere,
    place,
    unnoticed,
)

CLAIMING: Options = OPTIONS | {"claims": {"enabled": True}}


def test_what_hosts_tell_is_ignored_when_instances_are_no_longer_tracked(
    deployment: Deployment, database: Database, client: SchedulerClient
) -> None:
    a_fleet(database, HOSTS)
    scheduler = deployment.scheduler("threading", OPTIONS, name=NAME)
    line = "update_instance_info of compute1"
    with connected(deployment, scheduler) as sender:
        assert elsewhere(client, "compute1")
        sender.send_and_wait("cast_update_instance_info", line)
        off = {**OPTIONS["filter_scheduler"], "track_instance_changes": False}
        deployment.write_config(NAME, OPTIONS | {"filter_scheduler": off})
        sender.scheduler.send(signal.SIGHUP)
        assert wait_until(lambda: "Configuration read again" in sender.log())
        # The rows that were announced before are read.
        assert elsewhere(client, "compute1")
        unnoticed(database, INSTANCE)
        sender.send("cast_update_instance_info")
        # Sent later, and so as a rule taken in later.
        sender.send_and_wait("cast_update_aggregates", "update_aggregates: 1")
        assert elsewhere(client, "compute1")
        assert sender.log().count(line) == 1


def test_announced_aggregates_outlive_complete_readings_with_claims(
    deployment: Deployment, database: Database, client: SchedulerClient
) -> None:
    a_fleet(database, HOSTS)
    changed: Options = {"scheduler": {"view_reload_interval": 1}}
    scheduler = deployment.scheduler("threading", CLAIMING | changed)
    with connected(deployment, scheduler) as sender:
        sender.send_and_wait("cast_update_aggregates", "update_aggregates: 1")

        def readings() -> int:
            place(client, "compute3")
            return sender.log().count("Read all ")

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
    with connected(deployment, scheduler) as sender:
        cast_and_read(sender, client, database)


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

    with connected(deployment, scheduler) as sender:
        assert place(client, "compute1", uuid=INSTANCE) == "compute1"
        assert claimed() == ["compute1"]
        assert not elsewhere(client, "compute1")
        sender.send("cast_delete_instance_info")
        assert wait_until(lambda: not claimed())
        assert wait_until(lambda: elsewhere(client, "compute1"))
