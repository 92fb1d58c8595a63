# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""An agent stands by while another has the lease of its work, and takes over when that dies."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from oslo_config import cfg

from compute_agent import lease
from compute_agent.audit.tracker import ResourceTracker
from compute_agent.manager import Manager
from compute_agent.virt.driver import DriverUnavailable
from compute_agent.virt.fake import FakeDriver
from inventory import leases
from inventory.engine import Database
from tests.fixtures.agent import nodes
from tests.fixtures.daemons.process import wait_until

# Seconds in which an agent does the work after another one's death.
TAKEN_OVER = 5.0


class SharedDriver(FakeDriver):
    """A driver of hosts that several agents could report."""

    lease = "shared"
    broken = ""
    is_late = False

    def is_current(self, since: float) -> bool:
        return not self.is_late

    def stand_by(self) -> None:
        if self.broken:
            raise DriverUnavailable(self.broken)


@contextmanager
def standing_by(
    conf: cfg.ConfigOpts, database: Database, driver: SharedDriver
) -> Iterator[list[Exception | None]]:
    """What an agent says of standing by, inside the block."""
    tracker = ResourceTracker(conf, database, driver)
    manager = Manager(conf, database, driver, tracker, lambda: None)
    said: list[Exception | None] = []
    manager.standby_observer = said.append
    manager.start()
    try:
        yield said
    finally:
        manager.stop()


def test_it_takes_over_within_seconds_whatever_its_intervals_are(
    conf: cfg.ConfigOpts, database: Database
) -> None:
    conf.set_override("report_interval", 3600)
    conf.set_override("update_resources_interval", 3600)
    leases.hold(database, SharedDriver.lease, "dies soon", 60)
    with standing_by(conf, database, SharedDriver(conf)) as said:
        assert wait_until(lambda: said == [None])
        assert not nodes(database)
        died = time.monotonic()
        leases.hold(database, SharedDriver.lease, "dies soon", lease.SECONDS)
        assert wait_until(lambda: bool(nodes(database)))
        assert time.monotonic() - died > lease.SECONDS - 0.1
    # The questions, of which one may fail, leave time for what is done after them.
    assert lease.SECONDS + 2 * lease.INTERVAL < TAKEN_OVER


def test_it_writes_nothing_before_it_has_asked_anew(
    conf: cfg.ConfigOpts, database: Database
) -> None:
    driver = SharedDriver(conf)
    driver.is_late = True
    with standing_by(conf, database, driver):
        assert wait_until(lambda: bool(database.read(leases.listed)))
        assert not wait_until(lambda: bool(nodes(database)), timeout=1.0)
        driver.is_late = False
        assert wait_until(lambda: bool(nodes(database)))


def test_it_says_why_it_could_not_take_over(conf: cfg.ConfigOpts, database: Database) -> None:
    leases.hold(database, SharedDriver.lease, "lives", 60)
    driver = SharedDriver(conf)
    driver.broken = "access denied"
    with standing_by(conf, database, driver) as said:
        assert wait_until(lambda: [*map(str, said)] == ["access denied"])
        driver.broken = ""
        assert wait_until(lambda: said[-1] is None)
