# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The program berthmaster-agent. What it imports at the top imports nothing outside the standard
library: the concurrency backend has to be chosen before.
"""

import os
import sys
from typing import TYPE_CHECKING

from conf.daemon import process

if TYPE_CHECKING:
    from oslo_config import cfg

    from compute_agent.virt.driver import Driver

PROGRAM = "berthmaster-agent"


def main() -> None:
    """Run the agent until it is stopped."""
    backend = process.begin(PROGRAM, _patch)
    sys.exit(_run(backend))


def _patch() -> None:
    import eventlet

    eventlet.monkey_patch()


def _run(backend: str) -> int:
    from oslo_config import cfg
    from oslo_log import log

    from compute_agent.device_spec import DeviceSpecError
    from compute_agent.identity import IdentityError
    from compute_agent.service import AgentService
    from compute_agent.virt.driver import DriverMisconfigured
    from conf.daemon.systemd import Notifier
    from conf.loading import ConfigError
    from inventory.database_errors import DatabaseUnavailable
    from inventory.migrations import SchemaError
    from scheduler.messaging.transport import UnusableTransport

    conf = cfg.CONF
    refusals = (
        ConfigError,
        DatabaseUnavailable,
        DeviceSpecError,
        DriverMisconfigured,
        IdentityError,
        SchemaError,
        UnusableTransport,
    )
    with process.refusing(PROGRAM, *refusals):
        process.configure(conf, PROGRAM, sys.argv[1:])
        notifier = Notifier(os.environ)
        service = AgentService(conf, _checked_driver(conf), notifier)
    log.getLogger(__name__).info(
        "Starting as host %s with driver %s on %s", conf.host, conf.compute_driver, backend
    )
    return process.serve(conf, service, 1, refusals)


def _checked_driver(conf: "cfg.ConfigOpts") -> "Driver":
    """Return the driver, after all that is better refused now than noticed later."""
    from compute_agent import device_spec, identity
    from compute_agent.virt import driver_loading
    from inventory import migrations
    from inventory.engine import start_patience
    from scheduler.messaging.messaging_options import checked_transport

    device_spec.parse(conf.pci.device_spec)
    # For these checks only: a process that is forked off has a transport and a database of its own.
    checked_transport(conf)
    driver = driver_loading.load(conf)
    with migrations.checked_database(conf) as database, database.waiting(start_patience(conf)):
        identity.establish(conf, database, driver)
    return driver
