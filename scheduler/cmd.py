# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The program berthmaster-scheduler.

Its top-level imports import nothing but the standard library: the concurrency backend has to be
chosen before.
"""

import gc
import os
import sys

from conf.daemon import process

PROGRAM = "berthmaster-scheduler"
# New objects between two collections of garbage. At the default of 700 each request is interrupted,
# to look in vain at what others need.
GC_THRESHOLD = 20_000


def main() -> None:
    """Run the scheduler until it is stopped."""
    backend = process.begin(PROGRAM, _patch)
    sys.exit(_run(backend))


def _patch() -> None:
    import eventlet

    eventlet.monkey_patch()


def _run(backend: str) -> int:
    from oslo_config import cfg
    from oslo_log import log

    from conf.daemon.systemd import Notifier
    from conf.loading import ConfigError
    from inventory import migrations
    from inventory.database_errors import DatabaseUnavailable
    from inventory.errors import counted
    from inventory.nova.placement_errors import PlacementMisconfigured
    from scheduler import plugins, trust
    from scheduler.api.notifications import Notifications
    from scheduler.messaging.messaging_options import checked_transport
    from scheduler.messaging.transport import UnusableTransport
    from scheduler.operators.config_shadow.process import beside, check_shadow
    from scheduler.operators.status_pages.page_process import check_pages
    from scheduler.select_destinations.destination_builder import load_allocator
    from scheduler.service import SchedulerService

    conf = cfg.CONF
    refusals = (
        ConfigError,
        DatabaseUnavailable,
        PlacementMisconfigured,
        plugins.PluginError,
        migrations.SchemaError,
        UnusableTransport,
    )
    gc.set_threshold(GC_THRESHOLD)
    with process.refusing(PROGRAM, *refusals):
        process.configure(conf, PROGRAM, sys.argv[1:])
        notifier = Notifier(os.environ)
        plugins.load_driver(conf)
        trust.load(conf)
        load_allocator(conf)
        check_shadow(conf)
        check_pages(conf)
        # For these checks only: workers make their own transports and open their own database.
        checked_transport(conf)
        Notifications(conf)
        with migrations.checked_database(conf):
            pass
    workers = counted(conf.scheduler.workers, "worker")
    log.getLogger(__name__).info("Starting as host %s with %s on %s", conf.host, workers, backend)
    service = SchedulerService(conf, notifier)
    with beside(conf, sys.argv[1:]):
        return process.serve(conf, service, conf.scheduler.workers, refusals)
