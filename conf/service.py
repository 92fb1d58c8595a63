# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of the process: who it is, where it keeps its state, how often its heart beats."""

import socket

from oslo_config import cfg
from oslo_utils import netutils

OPTS = [
    cfg.HostDomainOpt(
        "host",
        default=socket.gethostname(),
        sample_default="<this machine's host name>",
        help="""
Name of this service on the message bus and in the database.

The agent's compute nodes and its row in the services table carry this name, and a conductor
addresses the compute service by it. It need not resolve, but it must stay the same for the life of
a host and differ from every other host's, letter case apart.
""",
    ),
    cfg.IPOpt(
        "my_ip",
        default=netutils.get_my_ipv4(),
        sample_default="<an address of this machine>",
        help="Address of this host as written into its compute node (host_ip).",
    ),
    cfg.StrOpt(
        "state_path",
        default="/var/lib/berthmaster",
        help="Directory of what must outlive a restart: node identity and embedded database.",
    ),
    cfg.IntOpt(
        "report_interval",
        default=10,
        min=1,
        help="Seconds between two heartbeats in the services table.",
    ),
    cfg.IntOpt(
        "service_down_time",
        default=60,
        min=1,
        help="""
Seconds since its last heartbeat after which a service counts as down.

Hosts whose service is down get no instances. A value not larger than report_interval cannot work;
int(2.5 x report_interval) is used then. Raise it where heartbeats are late because the database is
slow; lower it to notice a dead host sooner. No clocks are compared but the database's with itself.
""",
    ),
    cfg.StrOpt(
        "concurrency_backend",
        default="eventlet",
        choices=[
            ("eventlet", "green threads in one native thread"),
            ("threading", "native threads"),
            ("auto", "the default, as if the option was not set"),
        ],
        help="""
How a process runs several things at a time.

It is read before anything else is imported: first from the environment variable
BERTHMASTER_CONCURRENCY_BACKEND, then from the configuration files. Both do the same work; eventlet
uses less memory with many requests in flight, threading is what its upstream advises for the
future.
""",
    ),
    cfg.StrOpt(
        "default_availability_zone",
        default="nova",
        help="Availability zone of the hosts that no aggregate puts into one.",
    ),
]


def liveness_limit(conf: cfg.ConfigOpts) -> int:
    """Return the age in seconds up to which a heartbeat counts as alive."""
    if conf.service_down_time <= conf.report_interval:
        return int(2.5 * conf.report_interval)
    return int(conf.service_down_time)


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [("DEFAULT", OPTS)]
