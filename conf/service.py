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

It names the agent's compute nodes and its service, and conductors address the compute service by
it. It need not resolve, but must never change and must differ from the names of all other hosts in
more than letter case.
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

Hosts whose service is down get no instances. If not larger than report_interval, int(2.5 x
report_interval) is used. Raise it if a slow database delays heartbeats; lower it to notice dead
hosts sooner. Only the database's clock is used.
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
Concurrency model of the process.

Read before anything else is imported, from the environment variable
BERTHMASTER_CONCURRENCY_BACKEND, then from the configuration files. eventlet uses less memory with
many requests in flight; threading is what its upstream recommends for the future.
""",
    ),
    cfg.StrOpt(
        "default_availability_zone",
        default="nova",
        help="Availability zone of hosts that are in none by an aggregate.",
    ),
]


def liveness_limit(conf: cfg.ConfigOpts) -> int:
    """Return the age in seconds up to which a heartbeat counts as alive."""
    if conf.service_down_time <= conf.report_interval:
        return int(2.5 * conf.report_interval)
    return int(conf.service_down_time)
