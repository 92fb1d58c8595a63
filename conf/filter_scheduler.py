# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of the filters, the weighers and the choice among the best hosts.

All of them can be changed while the scheduler runs: it reads them again on SIGHUP.
"""

from oslo_config import cfg

from conf.former_names import formerly

# Every architecture that Nova knows.
ARCHITECTURES = [
    "alpha",
    "armv6",
    "armv7l",
    "armv7b",
    "aarch64",
    "cris",
    "i686",
    "ia64",
    "lm32",
    "m68k",
    "microblaze",
    "microblazeel",
    "mips",
    "mipsel",
    "mips64",
    "mips64el",
    "openrisc",
    "parisc",
    "parisc64",
    "ppc",
    "ppcle",
    "ppc64",
    "ppc64le",
    "ppcemb",
    "s390",
    "s390x",
    "sh4",
    "sh4eb",
    "sparc",
    "sparc64",
    "unicore32",
    "x86_64",
    "xtensa",
    "xtensaeb",
]


def _multiplier(name: str, default: float, what: str, least: float | None = None) -> cfg.FloatOpt:
    return cfg.FloatOpt(
        name,
        mutable=True,
        default=default,
        min=least,
        deprecated_opts=formerly(name),
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
        deprecated_opts=formerly("scheduler_available_filters"),
        help="""
Dotted paths of further filter classes, or of functions that return some, which enabled_filters may
name by their class name.

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
        deprecated_opts=formerly("scheduler_default_filters"),
        help="""
Filters that a host must pass, in this order: names in the namespace
berthmaster.scheduler.filters, class names from available_filters, or dotted paths of classes.

The order decides only which filter is named when a host is refused. RamFilter, CoreFilter and
DiskFilter are what bounds the memory, vCPUs and disk of a host. A list taken over from a Nova that
leaves these to Placement lacks them; see [claims] bounded_resources.
""",
    ),
    cfg.BoolOpt(
        "use_baremetal_filters",
        mutable=True,
        default=False,
        deprecated_opts=formerly("scheduler_use_baremetal_filters"),
        help="Use baremetal_enabled_filters instead of enabled_filters.",
    ),
    cfg.ListOpt(
        "baremetal_enabled_filters",
        mutable=True,
        default=[
            "RetryFilter",
            "AvailabilityZoneFilter",
            "ComputeFilter",
            "ComputeCapabilitiesFilter",
            "ImagePropertiesFilter",
            "ExactRamFilter",
            "ExactDiskFilter",
            "ExactCoreFilter",
        ],
        deprecated_opts=formerly("baremetal_scheduler_default_filters"),
        help="""
Filters for a cloud of bare metal, where an instance must fit its node exactly, in this order.
""",
    ),
    cfg.ListOpt(
        "weight_classes",
        mutable=True,
        default=["scheduler.weighers.all_weighers"],
        deprecated_opts=formerly("scheduler_weight_classes"),
        help="""
Weighers: names in the namespace berthmaster.scheduler.weighers or dotted paths of classes. A path
that ends in all_weighers (also nova.scheduler.weights.all_weighers) stands for all installed ones
but the cost functions, which are named in least_cost_functions.
""",
    ),
    cfg.IntOpt(
        "host_subset_size",
        mutable=True,
        default=1,
        min=0,
        deprecated_opts=formerly("scheduler_host_subset_size"),
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
        choices=ARCHITECTURES,
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
    _multiplier("pci_weight_multiplier", 1.0, "having few free PCI devices", least=0.0),
    _multiplier(
        "soft_affinity_weight_multiplier",
        1.0,
        "members of the instance's soft-affinity group on a host",
        least=0.0,
    ),
    _multiplier(
        "soft_anti_affinity_weight_multiplier",
        1.0,
        "the absence of members of the instance's soft-anti-affinity group",
        least=0.0,
    ),
    cfg.FloatOpt(
        "build_failure_weight_multiplier",
        mutable=True,
        default=1000000.0,
        help="""
Weight against builds that failed on a host since the last one that succeeded.

Positive avoids hosts with failures, 0 leaves them out of account. The metadata key of the same name
on an aggregate overrides it for that aggregate's hosts; the smallest wins where several do.
""",
    ),
    _multiplier(
        "cross_cell_move_weight_multiplier",
        1000000.0,
        "staying in the cell of an instance that moves and may change its cell",
    ),
    _multiplier("hypervisor_version_weight_multiplier", 1.0, "a newer hypervisor"),
    _multiplier(
        "image_props_weight_multiplier",
        0.0,
        "instances on a host whose images have properties in common with the requested one",
    ),
    cfg.ListOpt(
        "image_props_weight_setting",
        mutable=True,
        default=[],
        help="""
Image properties that count for image_props_weight_multiplier, as name=ratio each. Without any, all
properties count with a ratio of 1; with some, the others do not count.
""",
    ),
    cfg.IntOpt(
        "max_io_ops_per_host",
        mutable=True,
        default=8,
        min=0,
        deprecated_opts=formerly("max_io_ops_per_host"),
        help="""
Instances that may be busy with input and output on a host (being built, resized, migrated, saved
as an image, rescued or unshelved) for IoOpsFilter and AggregateIoOpsFilter to let one more in. The
metadata key of the same name on an aggregate overrides it for the latter.
""",
    ),
    cfg.IntOpt(
        "max_instances_per_host",
        mutable=True,
        default=50,
        min=1,
        deprecated_opts=formerly("max_instances_per_host"),
        help="""
Instances that a host may have for NumInstancesFilter and AggregateNumInstancesFilter, those that
are stopped included. The metadata key of the same name on an aggregate overrides it for the latter.
""",
    ),
    cfg.ListOpt(
        "isolated_images",
        mutable=True,
        default=[],
        deprecated_opts=formerly("isolated_images"),
        help="UUIDs of images that may run on isolated_hosts only, for IsolatedHostsFilter.",
    ),
    cfg.ListOpt(
        "isolated_hosts",
        mutable=True,
        default=[],
        deprecated_opts=formerly("isolated_hosts"),
        help="Names of the hosts that are kept for isolated_images, for IsolatedHostsFilter.",
    ),
    cfg.BoolOpt(
        "restrict_isolated_hosts_to_isolated_images",
        mutable=True,
        default=True,
        deprecated_opts=formerly("restrict_isolated_hosts_to_isolated_images"),
        help="Keep other images away from isolated_hosts.",
    ),
    cfg.StrOpt(
        "aggregate_image_properties_isolation_namespace",
        mutable=True,
        deprecated_opts=formerly("aggregate_image_properties_isolation_namespace"),
        help="""
Look only at aggregate metadata whose key begins with this and the separator, in
AggregateImagePropertiesIsolation. The rest of the key names the image property.
""",
    ),
    cfg.StrOpt(
        "aggregate_image_properties_isolation_separator",
        mutable=True,
        default=".",
        deprecated_opts=formerly("aggregate_image_properties_isolation_separator"),
        help="What separates aggregate_image_properties_isolation_namespace from the property.",
    ),
    cfg.BoolOpt(
        "track_instance_changes",
        mutable=True,
        default=True,
        deprecated_opts=formerly("scheduler_tracks_instance_changes"),
        help="""
Take in what Nova's compute services tell about the instances of their hosts. Where the hosts run
berthmaster-agent alone nobody tells anything, and it makes no difference.
""",
    ),
    cfg.ListOpt(
        "least_cost_functions",
        mutable=True,
        default=[],
        deprecated_opts=formerly("least_cost_functions"),
        help="""
Cost functions of Essex and Folsom to decide by instead of weight_classes:
compute_fill_first_cost_fn, noop_cost_fn.
""",
    ),
    cfg.FloatOpt(
        "compute_fill_first_cost_fn_weight",
        mutable=True,
        default=-1.0,
        deprecated_opts=formerly("compute_fill_first_cost_fn_weight"),
        help="""
Cost of a MB of free memory, for compute_fill_first_cost_fn. The host of least cost is chosen:
negative spreads instances over the hosts, positive fills one host after the other.
""",
    ),
    cfg.FloatOpt(
        "noop_cost_fn_weight",
        mutable=True,
        default=1.0,
        deprecated_opts=formerly("noop_cost_fn_weight"),
        help="Cost of any host, for noop_cost_fn.",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, group="filter_scheduler")


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [("filter_scheduler", OPTS)]
