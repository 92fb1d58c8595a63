# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""All options, for registration at start-up and for the generator of the sample file."""

from oslo_config import cfg
from oslo_db import options
from oslo_log import log

from conf import (
    alignment,
    audit,
    claims,
    compute,
    compute_agent,
    decisions,
    failover,
    fake,
    filter_scheduler,
    flavor_mix,
    libvirt,
    metrics,
    notifications,
    nova,
    pci,
    scheduler,
    service,
    shadow,
    status,
    trusted_computing,
    upgrade_levels,
)

EMBEDDED_DATABASE = "sqlite:///$state_path/berthmaster.sqlite"
GROUPS: list[tuple[str, list[cfg.Opt]]] = [
    ("DEFAULT", service.OPTS),
    ("scheduler", scheduler.OPTS),
    ("claims", claims.OPTS),
    ("decisions", decisions.OPTS),
    ("audit", audit.OPTS),
    ("failover", failover.OPTS),
    ("shadow", shadow.OPTS),
    ("filter_scheduler", filter_scheduler.OPTS),
    ("metrics", metrics.OPTS),
    ("alignment", alignment.OPTS),
    ("flavor_mix", flavor_mix.OPTS),
    ("compute", compute.OPTS),
    ("trusted_computing", trusted_computing.OPTS),
    ("DEFAULT", compute_agent.OPTS),
    ("compute_agent", compute_agent.AGENT_OPTS),
    ("libvirt", libvirt.OPTS),
    ("pci", pci.OPTS),
    ("fake", fake.OPTS),
    ("notifications", notifications.OPTS),
    ("status", status.OPTS),
    ("upgrade_levels", upgrade_levels.OPTS),
    ("api_database", nova.API_DATABASE_OPTS),
    ("nova", nova.OPTS),
]
# Schedulers read these again on SIGHUP.
_MUTABLE = (
    *(alignment, audit, claims, decisions, failover, filter_scheduler, flavor_mix, metrics),
    trusted_computing,
)
for _module in _MUTABLE:
    for _option in _module.OPTS:
        _option.mutable = True


def register(conf: cfg.ConfigOpts) -> None:
    """Register every option on conf and set the defaults of the libraries' own."""
    for group, ours in GROUPS:
        conf.register_opts(ours, group=None if group == "DEFAULT" else group)
    options.set_defaults(conf, connection=EMBEDDED_DATABASE)


def set_defaults() -> None:
    """Change the defaults of all libraries' options to ours, for the sample's generator."""
    set_transport_defaults()
    set_library_defaults()


def set_transport_defaults() -> None:
    """Change those of oslo.messaging, which who makes a transport does: it is slow to import."""
    import oslo_messaging

    oslo_messaging.set_transport_defaults("nova")


def set_library_defaults() -> None:
    """Change those of all other libraries."""
    log.set_defaults(default_log_levels=[*log.get_default_log_levels(), "alembic=WARN"])
    cfg.set_defaults(
        options.database_opts,
        connection=EMBEDDED_DATABASE,
        # A connection beyond the pool is made for each transaction and costs more than that.
        max_pool_size=20,
        max_overflow=0,
    )


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return (group, options) pairs, the form that oslo-config-generator asks for."""
    return GROUPS
