# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of the process: its name, state, heartbeat and concurrency."""

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

The agent's compute nodes and its service have this name, and conductors use it to address the
compute service. The name need not resolve, but must never change, and must differ from the names of
all other hosts by more than letter case.
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
        help="Directory for data that survives a restart: node identity and embedded database.",
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

Hosts whose service is down get no instances. If the value is not larger than report_interval,
int(2.5 x report_interval) is used. Raise the value if a slow database delays heartbeats; lower it
to notice dead hosts sooner. Only the clock of the database is used.
""",
    ),
    cfg.StrOpt(
        "concurrency_backend",
        default="eventlet",
        choices=[
            ("eventlet", "green threads in one native thread"),
            ("threading", "native threads"),
            ("auto", "the default, as if the option were not set"),
        ],
        help="""
Concurrency model of the process.

The option is read before anything else is imported, from the environment variable
BERTHMASTER_CONCURRENCY_BACKEND, then from the configuration files. eventlet uses less memory with
many requests in flight; threading is what the developers of eventlet recommend for the future.
""",
    ),
    cfg.StrOpt(
        "default_availability_zone",
        default="nova",
        help="Availability zone of hosts that no aggregate puts into a zone.",
    ),
]


def liveness_limit(conf: cfg.ConfigOpts) -> int:
    """Return the age in seconds up to which a heartbeat counts as alive."""
    if conf.service_down_time <= conf.report_interval:
        return int(2.5 * conf.report_interval)
    return int(conf.service_down_time)
