# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The program berthmaster-scheduler. What it imports at the top imports nothing outside the
standard library: the concurrency backend has to be chosen before.
"""

import os
import sys

from conf import process

PROGRAM = "berthmaster-scheduler"


def main() -> None:
    """Run the scheduler until it is told to stop."""
    backend = process.begin(PROGRAM, _patch)
    sys.exit(_run(backend))


def _patch() -> None:
    import eventlet

    eventlet.monkey_patch()


def _run(backend: str) -> int:
    from oslo_config import cfg
    from oslo_log import log

    from conf.loading import ConfigError
    from conf.systemd import Notifier
    from inventory import migrations
    from inventory.engine import DatabaseUnavailable
    from scheduler import attestation, plugins
    from scheduler.rpc.broker_options import checked_transport
    from scheduler.rpc.notifications import Notifications
    from scheduler.rpc.transport import UnusableTransport
    from scheduler.service import SchedulerService

    conf = cfg.CONF
    refusals = (
        ConfigError,
        DatabaseUnavailable,
        plugins.PluginError,
        migrations.SchemaError,
        UnusableTransport,
    )
    with process.refusing(PROGRAM, *refusals):
        process.configure(conf, PROGRAM, sys.argv[1:])
        notifier = Notifier(os.environ)
        plugins.load_driver(conf)
        attestation.load(conf)
        # For these checks only: what forks makes its own transports and opens its own database.
        checked_transport(conf)
        Notifications(conf)
        with migrations.checked_database(conf):
            pass
    log.getLogger(__name__).info(
        "Starting as host %s with %s workers on %s", conf.host, conf.scheduler.workers, backend
    )
    service = SchedulerService(conf, notifier)
    return process.serve(conf, service, conf.scheduler.workers, refusals)
