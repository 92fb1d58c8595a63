# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""After an outage of the database hosts are as they were, until they could send a heartbeat."""

import time
from datetime import timedelta

import pytest
import sqlalchemy as sa

from inventory import services
from inventory.dialects import current_time, utc_now
from inventory.engine import Database
from inventory.heartbeat import Heartbeat
from inventory.tables import services as table
from scheduler.host_cache.cache import HostCache
from tests.databases import a_node, save, serve

LIMIT, INTERVAL = 60, 10


def a_heart(database: Database, host: str = "scheduler", kind=services.SCHEDULER) -> Heartbeat:
    """Return the heartbeat of a daemon that has run for long and has just sent one."""
    heart = Heartbeat(database, [host], kind, INTERVAL)
    heart.limit = LIMIT
    heart._created -= 3600
    heart._register()
    heart._send()
    return heart


def pass_time(database: Database, seconds: float, *hearts: Heartbeat) -> None:
    """Make all heartbeats older, as after an outage of the database."""

    def work(connection: sa.Connection) -> None:
        for row in connection.execute(sa.select(table)).all():
            stamps = {
                name: getattr(row, name) - timedelta(seconds=seconds)
                for name in ("last_seen_up", "started_at", "reported_at")
                if getattr(row, name)
            }
            change = sa.update(table).where(table.c.id == row.id).values(**stamps)
            connection.execute(change)

    database.write(work)
    for heart in hearts:
        sent_at, stamp = heart._written
        heart._written = sent_at - seconds, stamp - timedelta(seconds=seconds)
    database.lost_at = time.monotonic()


def up(database: Database) -> set[str]:
    rows = database.read(lambda each: services.all_live(each, services.COMPUTE[0]))
    return {row.host for row in rows if services.is_up(row, LIMIT)}


def silence(database: Database, host: str, seconds: float) -> None:
    """Set the age of the last heartbeat of a host, in seconds."""

    def work(connection: sa.Connection) -> None:
        then = current_time(connection, utc_now) - timedelta(seconds=seconds)
        change = sa.update(table).where(table.c.host == host)
        connection.execute(change.values(last_seen_up=then))

    database.write(work)


@pytest.mark.parametrize("seconds", [75, 100_000])
def test_who_was_up_before_an_outage_is_up_after_it_for_two_intervals(
    database: Database, seconds: float
) -> None:
    serve(database, "living", "late", "dead")
    silence(database, "late", 55)
    silence(database, "dead", 90)
    heart = a_heart(database)
    pass_time(database, seconds, heart)
    assert up(database) == set()
    heart._beat()
    assert up(database) == {"living", "late"}
    # Those that send none are down two intervals later.
    rows = database.read(lambda each: services.all_live(each, services.COMPUTE[0]))
    (age,) = {round(services.heartbeat_age(row)) for row in rows if services.is_up(row, LIMIT)}
    assert 0 <= age - (LIMIT - 2 * INTERVAL) < INTERVAL


def test_who_sends_the_second_heartbeat_excuses_nobody(database: Database) -> None:
    serve(database, "living", "dying")
    hearts = a_heart(database), a_heart(database, "another")
    pass_time(database, 75, *hearts)
    hearts[0]._beat()
    silence(database, "dying", 70)
    hearts[1]._beat()
    assert up(database) == {"living"}


def test_a_daemon_that_has_just_started_hides_no_outage(database: Database) -> None:
    serve(database, "living")
    heart = a_heart(database)
    pass_time(database, 75, heart)
    Heartbeat(database, ["new"], services.SCHEDULER, INTERVAL)._register()
    serve(database, "new agent")
    heart._beat()
    assert up(database) == {"living", "new agent"}


def test_one_whose_connection_was_lost_excuses_nobody(database: Database) -> None:
    heart = a_heart(database)
    running = a_heart(database, "running", services.COMPUTE)
    # It has lost nothing itself.
    running.limit = 0
    serve(database, "dead")
    pass_time(database, 75, heart)
    running._beat()
    heart._beat()
    assert up(database) == {"running"}


def test_one_that_was_paused_excuses_nobody(database: Database) -> None:
    serve(database, "dead")
    heart = a_heart(database)
    pass_time(database, 75, heart)
    database.lost_at = float("-inf")
    heart._beat()
    assert up(database) == set()


@pytest.mark.parametrize("seconds", [-600, 600])
def test_a_clock_that_was_set_makes_no_host_dead(database: Database, seconds: float) -> None:
    serve(database, "living")
    heart = a_heart(database)
    written = heart._written
    pass_time(database, seconds)
    database.lost_at = float("-inf")
    heart._written = written[0], written[1] - timedelta(seconds=seconds)
    assert up(database) == set()
    heart._beat()
    assert up(database) == {"living"}


def test_a_scheduler_excuses_hosts_before_it_reads_them(database: Database) -> None:
    save(database, a_node("living"))
    serve(database, "living")
    heart = a_heart(database)
    cache = HostCache(database)
    cache.catch_up = heart.catch_up

    def ages() -> list[float]:
        with cache.current() as hosts:
            return [hosts.get(row, "heartbeat_age") for row in hosts.rows()]

    assert ages()[0] < LIMIT
    pass_time(database, 75, heart)
    cache._nodes.services_at -= 75
    assert ages()[0] < LIMIT


def test_facts_that_a_daemon_reported_outlast_an_outage(database: Database) -> None:
    serve(database, "living")
    heart = a_heart(database)
    pass_time(database, 75, heart)
    heart._beat()
    (row,) = database.read(lambda each: services.all_live(each, services.COMPUTE[0]))
    assert row.reported_at == row.last_seen_up
