# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of the scheduler service."""

from oslo_config import cfg

from conf.former_names import formerly

OPTS = [
    cfg.StrOpt(
        "driver",
        default="filter_scheduler",
        deprecated_opts=formerly("scheduler_driver"),
        help="""
How a host is chosen: the name of a driver in the namespace berthmaster.scheduler.drivers, or the
dotted path of a class.

filter_scheduler filters and weighs; caching_scheduler does the same on a view of the hosts that is
up to driver_task_period old; chance_scheduler draws any host that is up; simple_scheduler takes the
host with the fewest vCPUs in use; multi leaves requests to other drivers, by what they ask for;
fake answers every request with no host at all.
""",
    ),
    cfg.StrOpt(
        "compute_scheduler_driver",
        mutable=True,
        default="filter_scheduler",
        deprecated_opts=formerly("compute_scheduler_driver"),
        help="Driver to which multi leaves requests for instances: for vCPUs or memory.",
    ),
    cfg.StrOpt(
        "volume_scheduler_driver",
        mutable=True,
        default="chance_scheduler",
        deprecated_opts=formerly("volume_scheduler_driver"),
        help="Driver to which multi leaves requests for volumes: for disk and nothing else.",
    ),
    cfg.StrOpt(
        "default_scheduler_driver",
        mutable=True,
        default="chance_scheduler",
        deprecated_opts=formerly("default_scheduler_driver"),
        help="Driver to which multi leaves requests that ask for nothing.",
    ),
    cfg.IntOpt(
        "driver_task_period",
        mutable=True,
        default=60,
        min=1,
        deprecated_opts=formerly("scheduler_driver_task_period"),
        help="Age in seconds up to which caching_scheduler uses its view of the hosts.",
    ),
    cfg.IntOpt(
        "max_cores",
        mutable=True,
        default=16,
        min=1,
        deprecated_opts=formerly("max_cores"),
        help="Most vCPUs that simple_scheduler puts on a host, whatever CPUs it has.",
    ),
    cfg.BoolOpt(
        "skip_isolated_core_check",
        mutable=True,
        default=True,
        deprecated_opts=formerly("skip_isolated_core_check"),
        help="Let simple_scheduler exceed max_cores with images of isolated_images.",
    ),
    cfg.StrOpt(
        "default_schedule_zone",
        mutable=True,
        deprecated_opts=formerly("default_schedule_zone"),
        help="Zone in which simple_scheduler places instances that ask for none; unset, any.",
    ),
    cfg.BoolOpt(
        "query_placement_for_availability_zone",
        mutable=True,
        default=True,
        help="""
Keep to the hosts of the requested availability zone even where AvailabilityZoneFilter is not
enabled, as Nova does since 2023.2 by way of Placement.
""",
    ),
    cfg.BoolOpt(
        "limit_tenants_to_placement_aggregate",
        mutable=True,
        default=False,
        help="""
Keep a project to the hosts of the aggregates that have its id as the value of a metadata key that
begins with filter_tenant_id.
""",
    ),
    cfg.BoolOpt(
        "placement_aggregate_required_for_tenants",
        mutable=True,
        default=False,
        help="""
Refuse projects for which limit_tenants_to_placement_aggregate finds no aggregate; otherwise they
may go anywhere.
""",
    ),
    cfg.BoolOpt(
        "enable_isolated_aggregate_filtering",
        mutable=True,
        default=False,
        help="""
Keep instances away from the hosts of aggregates whose metadata says trait:NAME = required, unless
flavor or image requires the same trait; those that require it go nowhere else. Without this option
they are refused, as nothing is known here of traits.
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
        deprecated_opts=formerly("scheduler_max_attempts"),
        help="""
How many hosts an instance may be tried on, the first included.

One less than this is the number of alternates that are returned to callers that ask for them.
""",
    ),
    cfg.FloatOpt(
        "view_max_age",
        sample_default="1 with claims, 0 without",
        min=0.0,
        help="""
Age in seconds up to which the scheduler's view of the hosts is used without asking the database
what changed. 0 asks before every decision; concurrent requests share one query.

With claims an outdated view costs a second attempt and nothing else, and changes are pushed to all
schedulers anyway. Without claims it costs double bookings.
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
        default=30,
        min=1,
        help="""
Requests that one process takes from the broker at a time.

What is taken but not yet answered is lost when the process is killed; what waits in the broker is
not. No more than executor_thread_pool_size are taken, and with more than rpc_conn_pool_size the
answers wait for each other.
""",
    ),
]


def view_max_age(conf: cfg.ConfigOpts) -> float:
    """Return the age in seconds up to which the view is used as it is."""
    configured = conf.scheduler.view_max_age
    if configured is None:
        return 1.0 if conf.claims.enabled else 0.0
    return float(configured)


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, group="scheduler")


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [("scheduler", OPTS)]
