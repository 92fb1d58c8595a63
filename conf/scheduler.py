# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of the scheduler service."""

from oslo_config import cfg

OPTS = [
    cfg.StrOpt(
        "driver",
        default="filter_scheduler",
        deprecated_opts=[cfg.DeprecatedOpt("scheduler_driver", group="DEFAULT")],
        help="""
How a host is chosen: the name of a driver in the namespace berthmaster.scheduler.drivers, or the
dotted path of a class.
""",
    ),
    cfg.IntOpt(
        "workers",
        default=1,
        min=1,
        help="""
Number of scheduler processes on this machine.

Each keeps its own view of the hosts. One process is enough for hundreds of requests a second; more
of them spread the load of many callers over the cores.
""",
    ),
    cfg.IntOpt(
        "max_attempts",
        default=3,
        min=1,
        deprecated_opts=[cfg.DeprecatedOpt("scheduler_max_attempts", group="DEFAULT")],
        help="""
How many hosts an instance may be tried on, the first included.

One less than this is the number of alternates that are returned to callers that ask for them.
""",
    ),
    cfg.FloatOpt(
        "view_max_age",
        default=0.0,
        min=0.0,
        help="""
Age in seconds up to which the scheduler's view of the hosts is used without asking the database
what changed. 0 asks before every decision; concurrent requests share one query.
""",
    ),
    cfg.IntOpt(
        "view_reload_interval",
        default=300,
        min=1,
        help="Seconds between two complete reloads of the view, which heal whatever was missed.",
    ),
    cfg.IntOpt(
        "request_timeout",
        default=50,
        min=1,
        help="""
Seconds after which a request that still waits for the database is answered with an error, so that
no caller hangs. It should be a little less than callers wait, which is rpc_response_timeout.
""",
    ),
    cfg.StrOpt(
        "cell_uuid",
        help="""
UUID of the Nova cell that all hosts of this database belong to.

It goes into the answers to conductors, which compare it with the cell of an instance that moves.
Unset, hosts count as members of whichever cell a conductor asks for.
""",
    ),
    cfg.IntOpt(
        "max_requests_in_flight",
        default=64,
        min=1,
        help="""
Requests that one process takes from the broker at a time.

What is taken but not yet answered is lost when the process is killed; what waits in the broker is
not. Keep it near executor_thread_pool_size.
""",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, group="scheduler")


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [("scheduler", OPTS)]
