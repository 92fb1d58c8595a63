# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of the filters, the weighers and the choice among the best hosts.

All of them can be changed while the scheduler runs: it reads them again on SIGHUP.
"""

from oslo_config import cfg


def _formerly(name: str) -> list[cfg.DeprecatedOpt]:
    """Return the flat name that the option had up to Newton (14)."""
    return [cfg.DeprecatedOpt(name, group="DEFAULT")]


def _multiplier(name: str, default: float, what: str) -> cfg.FloatOpt:
    return cfg.FloatOpt(
        name,
        mutable=True,
        default=default,
        deprecated_opts=_formerly(name),
        help=f"""
Weight of {what}.

Positive prefers more of it, negative less, 0 leaves it out. The metadata key of the same name on an
aggregate overrides it for that aggregate's hosts; the smallest wins where several do.
""",
    )


OPTS = [
    cfg.MultiStrOpt(
        "available_filters",
        mutable=True,
        default=["scheduler.filters.all_filters"],
        deprecated_opts=_formerly("scheduler_available_filters"),
        help="""
Dotted paths of further filter classes that enabled_filters may name by their class name.

All filters that are installed in the namespace berthmaster.scheduler.filters are available anyway;
a path that ends in all_filters (also nova.scheduler.filters.all_filters) stands for just these.
""",
    ),
    cfg.ListOpt(
        "enabled_filters",
        mutable=True,
        default=[
            "RetryFilter",
            "AvailabilityZoneFilter",
            "ComputeFilter",
            "RamFilter",
            "CoreFilter",
            "DiskFilter",
            "ComputeCapabilitiesFilter",
            "ImagePropertiesFilter",
            "ServerGroupAntiAffinityFilter",
            "ServerGroupAffinityFilter",
        ],
        deprecated_opts=_formerly("scheduler_default_filters"),
        help="""
Filters that a host must pass, in this order: names in the namespace
berthmaster.scheduler.filters, class names from available_filters, or dotted paths of classes.

The order decides only which filter is named when a host is refused. RamFilter, CoreFilter and
DiskFilter are what bounds the memory, vCPUs and disk of a host: a list taken over from a Nova that
leaves these to Placement lacks them.
""",
    ),
    cfg.ListOpt(
        "weight_classes",
        mutable=True,
        default=["scheduler.weighers.all_weighers"],
        deprecated_opts=_formerly("scheduler_weight_classes"),
        help="""
Weighers: names in the namespace berthmaster.scheduler.weighers or dotted paths of classes. A path
that ends in all_weighers (also nova.scheduler.weights.all_weighers) stands for all installed ones.
""",
    ),
    cfg.IntOpt(
        "host_subset_size",
        mutable=True,
        default=1,
        min=0,
        deprecated_opts=_formerly("scheduler_host_subset_size"),
        help="""
Choose at random among this many of the best hosts. 0 counts as 1, as up to Newton.

1 always takes the best. More of them make it rarer that two schedulers choose the same host at the
same time, at the price of a choice that is not the best.
""",
    ),
    cfg.BoolOpt(
        "shuffle_best_same_weighed_hosts",
        mutable=True,
        default=False,
        help="Choose at random among hosts of exactly the same, best weight instead of the first.",
    ),
    cfg.StrOpt(
        "image_properties_default_architecture",
        mutable=True,
        help="""
Architecture that an image without the property hw_architecture is taken to need, such as x86_64.
Unset, such an image may go to a host of any architecture.
""",
    ),
    _multiplier("ram_weight_multiplier", 1.0, "free memory in MB"),
    _multiplier("cpu_weight_multiplier", 1.0, "free vCPUs, over-commit included"),
    _multiplier("disk_weight_multiplier", 1.0, "free disk in MB"),
    _multiplier("io_ops_weight_multiplier", -1.0, "instances that are busy with input and output"),
    _multiplier("num_instances_weight_multiplier", 0.0, "the number of instances on a host"),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, group="filter_scheduler")


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [("filter_scheduler", OPTS)]
