# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of the scheduler service."""

from oslo_config import cfg

from conf.deprecated import formerly

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
host with the fewest vCPUs in use; multi passes each request to another driver, by what the request
asks for; fake answers every request without a host.
""",
    ),
    cfg.StrOpt(
        "compute_scheduler_driver",
        mutable=True,
        default="filter_scheduler",
        deprecated_opts=formerly("compute_scheduler_driver"),
        help="Driver to which multi passes requests for instances, which ask for vCPUs or memory.",
    ),
    cfg.StrOpt(
        "volume_scheduler_driver",
        mutable=True,
        default="chance_scheduler",
        deprecated_opts=formerly("volume_scheduler_driver"),
        help="Driver to which multi passes requests for volumes, which ask for disk only.",
    ),
    cfg.StrOpt(
        "default_scheduler_driver",
        mutable=True,
        default="chance_scheduler",
        deprecated_opts=formerly("default_scheduler_driver"),
        help=(
            "Driver to which multi passes requests that ask for neither vCPUs nor memory nor disk."
        ),
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
        help=(
            "Maximum number of vCPUs that simple_scheduler puts on a host, whatever the number of"
            " its CPUs."
        ),
    ),
    cfg.BoolOpt(
        "skip_isolated_core_check",
        mutable=True,
        default=True,
        deprecated_opts=formerly("skip_isolated_core_check"),
        help="Whether simple_scheduler may exceed max_cores for isolated_images.",
    ),
    cfg.StrOpt(
        "default_schedule_zone",
        mutable=True,
        deprecated_opts=formerly("default_schedule_zone"),
        help=(
            "Zone in which simple_scheduler places instances that request no zone. If unset, they"
            " may be placed in any zone."
        ),
    ),
    cfg.IntOpt(
        "max_placement_results",
        default=1000,
        min=1,
        help="Maximum number of candidates that Placement returns when it is asked about all"
        " hosts: for requests of traits or resources that only Placement knows, and after"
        " Placement has refused chosen hosts.",
    ),
    cfg.BoolOpt(
        "query_placement_for_image_type_support",
        default=False,
        help="Select only hosts of which Placement knows that they support the disk format of the"
        " image.",
    ),
    cfg.BoolOpt(
        "image_metadata_prefilter",
        default=False,
        help="Select only hosts of which Placement knows that they support what the image"
        " requests: models of buses, video and network devices, architectures.",
    ),
    cfg.BoolOpt(
        "query_placement_for_availability_zone",
        mutable=True,
        default=True,
        help="Restrict requests to the requested availability zone even without"
        " AvailabilityZoneFilter, as Nova does since 2023.2 through Placement.",
    ),
    cfg.BoolOpt(
        "limit_tenants_to_placement_aggregate",
        mutable=True,
        default=False,
        help="Restrict a project to the hosts of aggregates with its id in a metadata key that"
        " begins with filter_tenant_id.",
    ),
    cfg.BoolOpt(
        "placement_aggregate_required_for_tenants",
        mutable=True,
        default=False,
        help="Refuse requests of projects that have no aggregate for"
        " limit_tenants_to_placement_aggregate; otherwise such projects may use any host.",
    ),
    cfg.BoolOpt(
        "enable_isolated_aggregate_filtering",
        mutable=True,
        default=False,
        help="Keep instances away from the hosts of aggregates with the metadata trait:NAME ="
        " required, unless the flavor or image requires the same trait; instances that"
        " require the trait are placed on these hosts only. If disabled, such instances are"
        " refused, since hosts have no traits here.",
    ),
    cfg.IntOpt(
        "workers",
        default=1,
        min=1,
        help="""
Number of scheduler processes on this machine.

Each process has its own host cache. One process handles hundreds of requests a second; more
processes use more cores.
""",
    ),
    cfg.IntOpt(
        "max_attempts",
        default=3,
        min=1,
        deprecated_opts=formerly("scheduler_max_attempts"),
        help="Maximum number of hosts on which an instance is tried, the first host included."
        " Callers that ask for alternates get one host less than this.",
    ),
    cfg.FloatOpt(
        "view_max_age",
        sample_default="1 with claims, 0 without",
        min=0.0,
        help="""
Age in seconds up to which the host cache is used without asking the database for changes. With 0,
the database is asked before every decision; concurrent requests share a query.

With claims, an outdated host cache only costs another attempt, and changes are pushed to all
schedulers anyway. Without claims, an outdated host cache causes double bookings.
""",
    ),
    cfg.IntOpt(
        "view_reload_interval",
        default=300,
        min=1,
        help="Seconds between two full reloads of the host cache, which repair missed changes.",
    ),
    cfg.IntOpt(
        "request_timeout",
        default=50,
        min=1,
        help="Seconds after which a request that waits for the database is answered with an"
        " error. The value should be a little less than the rpc_response_timeout of callers.",
    ),
    cfg.StrOpt(
        "cell_uuid",
        help="""
UUID of the Nova cell of all hosts of this database.

The UUID is part of the answers to conductors, which compare it with the cell of an instance that
moves. If unset, hosts match any cell that a conductor requests.
""",
    ),
    cfg.StrOpt(
        "intake",
        default="batched",
        choices=[
            ("batched", "All requests that have come are taken together, up to 64."),
            ("stock", "Requests are taken one by one, by the server of oslo.messaging."),
        ],
        help="""
How requests come from the broker.

In batches their acknowledgements and answers are sent together, which costs a fraction of the
processor time. It needs a transport_url that begins with rabbit:; with others, and where messages
are traced ([oslo_messaging_tracing]), requests are taken one by one.
""",
    ),
    cfg.IntOpt(
        "max_requests_in_flight",
        default=30,
        min=1,
        help="""
Number of requests that one process takes from the broker at a time.

Requests that were taken but not answered are lost when the process is killed; requests that are
still in the broker are not. The maximum is executor_thread_pool_size; above rpc_conn_pool_size,
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
