# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""All options, for registration at start-up and for the generator of the sample file."""

from oslo_config import cfg
from oslo_db import options
from oslo_log import log
from oslo_messaging import set_transport_defaults

from conf import (
    alignment,
    claims,
    compute,
    compute_agent,
    database,
    decisions,
    fake,
    filter_scheduler,
    libvirt,
    metrics,
    monitors,
    notifications,
    pci,
    scheduler,
    service,
    status,
    trusted_computing,
    upgrade_levels,
)

GROUPS = (
    service,
    database,
    scheduler,
    claims,
    decisions,
    filter_scheduler,
    metrics,
    alignment,
    compute,
    trusted_computing,
    compute_agent,
    libvirt,
    pci,
    monitors,
    fake,
    notifications,
    status,
    upgrade_levels,
)


def register(conf: cfg.ConfigOpts) -> None:
    """Register every option on conf and set the defaults of the libraries' own."""
    for group in GROUPS:
        group.register_opts(conf)


def set_defaults() -> None:
    """Change the defaults of libraries' options to ours; the sample's generator calls it too."""
    set_transport_defaults("nova")
    log.set_defaults(default_log_levels=[*log.get_default_log_levels(), "alembic=WARN"])
    cfg.set_defaults(
        options.database_opts,
        connection=database.EMBEDDED,
        # A connection beyond the pool is made for each transaction and costs more than that.
        max_pool_size=20,
        max_overflow=0,
    )


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return (group, options) pairs, the form that oslo-config-generator asks for."""
    return [pair for group in GROUPS for pair in group.list_opts()]
