# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The process beside a scheduler that follows all decisions by [shadow] config."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event

from oslo_config import cfg
from oslo_log import log

from conf import loading
from conf.daemon.process import end_child
from inventory import leases, migrations, shadow_reports
from inventory.database_errors import DatabaseUnavailable
from inventory.engine import Database
from scheduler import plugins
from scheduler.history.config_snapshot import deciding_by
from scheduler.operators.config_shadow.follower import Follower
from scheduler.operators.live_hosts import LiveHosts

LOG = log.getLogger(__name__)
# Seconds: between two looks at the decisions, and of the lease.
INTERVAL, LEASE = 5.0, 60.0
_LEASE_NAME = "shadow"
# Seconds that the process has to end by itself.
_STOP_TIMEOUT = 10.0
# What decides about requests is more urgent.
_NICENESS = 10


def read_shadow(conf: cfg.ConfigOpts) -> cfg.ConfigOpts:
    """Return the configuration of the shadow; raises ConfigError."""
    arguments = [f"--config-file={conf.shadow.config}"]
    found = loading.read_apart("berthmaster-scheduler", arguments)
    # It decides about the hosts of this scheduler.
    found.set_override("cell_uuid", conf.scheduler.cell_uuid, "scheduler")
    return found


def check_shadow(conf: cfg.ConfigOpts) -> None:
    """Raise ConfigError or PluginError for a shadow that could not decide."""
    if not conf.shadow.config:
        return
    try:
        shadow = read_shadow(conf)
    except loading.ConfigError as error:
        where = loading.source(conf, "shadow", "config")
        text = f"option [shadow] config = {conf.shadow.config!r} in {where}: {error}"
        raise loading.ConfigError(text) from error
    plugins.load_driver(shadow)


@contextmanager
def beside(conf: cfg.ConfigOpts, arguments: Sequence[str]) -> Iterator[None]:
    """Run the process while the block lasts, if asked to, with a scheduler's arguments."""
    if not conf.shadow.config:
        yield
        return
    command = [sys.executable, "-m", "scheduler.operators.config_shadow", *arguments]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    LOG.info(
        "Process %s, the shadow, follows the decisions with the configuration %s",
        process.pid,
        conf.shadow.config,
    )
    try:
        yield
    finally:
        end_child(process, _STOP_TIMEOUT)


def follow(conf: cfg.ConfigOpts) -> None:
    """Follow the decisions until SIGTERM, or until the scheduler is gone."""
    # The unit forbids it, and the kernel shares out fairly then.
    with suppress(PermissionError):
        os.nice(_NICENESS)
    stop, parent = Event(), os.getppid()
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: stop.set())
    # A scheduler reads its files again; this has no part in it.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    shadow_conf, owner = read_shadow(conf), f"{conf.host} {os.getpid()}"
    with migrations.checked_database(conf) as database, deciding_by(shadow_conf):
        shadow: _Shadow | None = None
        try:
            is_over = False
            while True:
                try:
                    if leases.hold(database, _LEASE_NAME, owner, LEASE) == owner:
                        shadow = shadow or _Shadow(conf, shadow_conf, database)
                        shadow.step()
                    else:
                        shadow = None
                except DatabaseUnavailable as error:
                    LOG.warning("The shadow waits for the database: %s", error)
                except Exception:
                    # The next step may work, and schedulers work without it.
                    LOG.exception("The shadow failed to follow the decisions")
                if is_over:
                    break
                # Once more after the end: what was decided last is saved then.
                is_over = stop.wait(INTERVAL) or os.getppid() != parent
        finally:
            with suppress(DatabaseUnavailable):
                leases.release(database, _LEASE_NAME, owner)


class _Shadow:
    """A follower that writes its reports."""

    def __init__(
        self, conf: cfg.ConfigOpts, shadow_conf: cfg.ConfigOpts, database: Database
    ) -> None:
        self._database = database
        live = LiveHosts.of(shadow_conf, database, max_age=0.0)
        destinations = live.destinations
        self._mix = live.mix
        self._follower = Follower(database, destinations.host_cache, destinations.driver.decide)
        name = conf.shadow.config
        self._number = database.write(lambda each: shadow_reports.begin(each, conf.host, name))
        LOG.info("The shadow follows all decisions from now on, with the configuration %s", name)

    def step(self) -> None:
        self._mix.refresh()
        self._follower.step()
        text = json.dumps(self._follower.document())
        self._database.write(lambda each: shadow_reports.write(each, self._number, text))
