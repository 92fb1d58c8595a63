# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A daemon that starts: it reads before it is ready, and waits for a database that goes away."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pymysql
import pytest

from inventory import services
from inventory.engine import Database
from scheduler.client.scheduler_client import SchedulerClient
from tests.backends import each_backend
from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.daemons.process import Process, log_tail, wait_until
from tests.fixtures.deployment import Deployment, Options, a_fleet, wait_for_log
from tests.functional.test_outages import place

SERVES = "serves select_destinations"
WAITS = "Waiting up to 100 s for the database: "
# As a daemon has them by default.
PATIENT: Options = {"database": {"max_retries": 10, "retry_interval": 10}}
BLOCKED = (
    "SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE 'Waiting for table%'"
)


@contextmanager
def locked(mariadb: MariaDB, deployment: Deployment, table: str) -> Iterator[Any]:
    """Yield a cursor of who alone may use a table for as long as the block lasts."""
    name = deployment.database_url.rpartition("/")[2].partition("?")[0]
    with (
        pymysql.connect(
            unix_socket=str(mariadb.socket), user="root", database=name, autocommit=True
        ) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(f"LOCK TABLES {table} WRITE")
        yield cursor


def wait_blocked(cursor: Any, process: Process) -> None:
    """Wait until a process waits for a lock; it must not say before that it serves."""

    def blocked() -> bool:
        cursor.execute(BLOCKED)
        return bool(cursor.fetchone()[0]) or process.has_logged(SERVES)

    assert wait_until(blocked)
    assert not process.has_logged(SERVES), log_tail(process.log)
    assert process.status is None, log_tail(process.log)


@each_backend
def test_who_is_ready_has_read_all_hosts_with_what_was_written_meanwhile(
    deployment: Deployment,
    database: Database,
    client: SchedulerClient,
    mariadb: MariaDB,
    backend: str,
) -> None:
    a_fleet(database, ["compute1"], memory_mb_used=512, free_ram_mb=65024)
    a_fleet(database, ["compute2"], memory_mb_used=20000, free_ram_mb=45536)
    # No request has the hosts read, nor does anybody push what is written here.
    lazy: Options = {"scheduler": {"view_max_age": 3600, "view_reload_interval": 3600}}
    with locked(mariadb, deployment, "compute_nodes") as cursor:
        scheduler = deployment.start_scheduler("scheduler1", backend, lazy)
        wait_blocked(cursor, scheduler)
        cursor.execute(
            "UPDATE compute_nodes SET memory_mb_used = 40000, free_ram_mb = 25536,"
            " generation = generation + 1, updated_at = UTC_TIMESTAMP(6) WHERE host = 'compute1'"
        )
    wait_for_log(scheduler, SERVES)
    assert place(client) == "compute2"


@each_backend
def test_a_scheduler_keeps_its_hosts_fresh_without_requests(
    deployment: Deployment, database: Database, backend: str
) -> None:
    a_fleet(database, ["compute1"])
    scheduler = deployment.scheduler(backend)
    (row,) = database.read(lambda each: services.all_live(each, services.COMPUTE[0]))
    database.write(lambda each: services.delete(each, [row.id]))
    wait_for_log(scheduler, "Host compute1 has a compute node but no compute service")


@pytest.mark.parametrize("table", ["berthmaster_version", "services", "compute_nodes"])
def test_a_scheduler_waits_for_a_database_that_goes_away_while_it_starts(
    deployment: Deployment,
    database: Database,
    client: SchedulerClient,
    mariadb: MariaDB,
    table: str,
) -> None:
    a_fleet(database, ["compute1"])
    with locked(mariadb, deployment, table) as cursor:
        scheduler = deployment.start_scheduler("scheduler1", options=PATIENT)
        wait_blocked(cursor, scheduler)
        mariadb.kill()
        try:
            wait_for_log(scheduler, WAITS)
        finally:
            mariadb.start()
    wait_for_log(scheduler, SERVES)
    assert place(client) == "compute1"


# It reads its compute nodes in audits, which have always been tried again.
@pytest.mark.parametrize("table", ["berthmaster_version", "services"])
def test_an_agent_waits_for_a_database_that_goes_away_while_it_starts(
    deployment: Deployment, database: Database, mariadb: MariaDB, table: str
) -> None:
    fake: Options = {"DEFAULT": {"compute_driver": "fake"}}
    with locked(mariadb, deployment, table) as cursor:
        agent = deployment.agent(options={**PATIENT, **fake}, name="compute1")
        wait_blocked(cursor, agent)
        mariadb.kill()
        try:
            # By then more attempts have failed than while it runs.
            assert wait_until(lambda: agent.has_logged(WAITS) or agent.status is not None)
        finally:
            mariadb.start()
    registered = "SELECT COUNT(*) FROM services WHERE host = 'compute1' AND report_count > 0"
    assert wait_until(
        lambda: (
            database.read(lambda each: each.exec_driver_sql(registered).scalar())
            or agent.status is not None
        )
    )
    assert agent.status is None, log_tail(agent.log)
