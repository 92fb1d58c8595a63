# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of the filters, the weighers and the choice among the best hosts."""

from oslo_config import cfg

from conf.deprecated import formerly

# Every architecture that Nova knows.
ARCHITECTURES = [
    *("alpha", "armv6", "armv7l", "armv7b", "aarch64", "cris", "i686", "ia64", "lm32", "m68k"),
    *("microblaze", "microblazeel", "mips", "mipsel", "mips64", "mips64el", "openrisc"),
    *("parisc", "parisc64", "ppc", "ppcle", "ppc64", "ppc64le", "ppcemb", "s390", "s390x"),
    *("sh4", "sh4eb", "sparc", "sparc64", "unicore32", "x86_64", "xtensa", "xtensaeb"),
]


def _multiplier(name: str, default: float, what: str, least: float | None = None) -> cfg.FloatOpt:
    return cfg.FloatOpt(
        name,
        default=default,
        min=least,
        deprecated_opts=formerly(name),
        help=f"""
Weight of {what}.

A positive weight prefers hosts with more of this, a negative weight hosts with less; 0 disables the
weight. The metadata key of the same name on an aggregate overrides the weight for the hosts of the
aggregate; where several aggregates do so, the smallest value is used.
""",
    )


OPTS = [
    cfg.MultiStrOpt(
        "available_filters",
        default=["scheduler.filters.all_filters"],
        deprecated_opts=formerly("scheduler_available_filters"),
        help="""
Dotted paths of further filter classes, or of functions that return filter classes, which
enabled_filters may name by class name.

All filters in the namespace berthmaster.scheduler.filters are always available; a path that ends in
all_filters (also nova.scheduler.filters.all_filters) stands for all of these filters.
""",
    ),
    cfg.ListOpt(
        "enabled_filters",
        default=[
            *("RetryFilter", "AvailabilityZoneFilter", "ComputeFilter"),
            *("RamFilter", "CoreFilter", "DiskFilter"),
            *("ComputeCapabilitiesFilter", "ImagePropertiesFilter"),
            *("ServerGroupAntiAffinityFilter", "ServerGroupAffinityFilter"),
        ],
        deprecated_opts=formerly("scheduler_default_filters"),
        help="""
Filters that a host must pass, in this order: names in the namespace
berthmaster.scheduler.filters, class names from available_filters, or dotted paths of classes.

The order decides only which filter is named when a host is refused. RamFilter, CoreFilter and
DiskFilter bound the memory, vCPUs and disk of hosts. Nova's lists since Pike lack them; see
[claims] bounded_resources.
""",
    ),
    cfg.BoolOpt(
        "use_baremetal_filters",
        default=False,
        deprecated_opts=formerly("scheduler_use_baremetal_filters"),
        help="Use baremetal_enabled_filters instead of enabled_filters.",
    ),
    cfg.ListOpt(
        "baremetal_enabled_filters",
        default=[
            *("RetryFilter", "AvailabilityZoneFilter", "ComputeFilter"),
            *("ComputeCapabilitiesFilter", "ImagePropertiesFilter"),
            *("ExactRamFilter", "ExactDiskFilter", "ExactCoreFilter"),
        ],
        deprecated_opts=formerly("baremetal_scheduler_default_filters"),
        help="Filters for bare metal, where an instance must fit its node exactly, in this order.",
    ),
    cfg.ListOpt(
        "weight_classes",
        default=["scheduler.weighers.all_weighers"],
        deprecated_opts=formerly("scheduler_weight_classes"),
        help="Weighers: names in the namespace berthmaster.scheduler.weighers or dotted paths of"
        " classes. A path that ends in all_weighers (also"
        " nova.scheduler.weights.all_weighers) stands for all installed weighers except the"
        " cost functions of least_cost_functions.",
    ),
    cfg.IntOpt(
        "host_subset_size",
        default=1,
        min=0,
        deprecated_opts=formerly("scheduler_host_subset_size"),
        help="""
Choose at random among this many of the best hosts. 0 counts as 1, as up to Newton.

With 1, the best host is always chosen. With more, two schedulers choose the same host at the same
time less often, but the choice is not always the best.
""",
    ),
    cfg.BoolOpt(
        "shuffle_best_same_weighed_hosts",
        default=False,
        help=(
            "Choose at random among the hosts that share the best weight exactly, instead of the"
            " first of these hosts."
        ),
    ),
    cfg.StrOpt(
        "image_properties_default_architecture",
        choices=ARCHITECTURES,
        help="Architecture of images without the property hw_architecture, such as x86_64. If"
        " unset, instances of such images may be placed on hosts of any architecture.",
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
        default=1000000.0,
        help="""
Weight against builds that failed on a host since its last success.

A positive weight avoids hosts with failures, 0 ignores failures. The metadata key of the same name
of an aggregate overrides the weight for the hosts of the aggregate; where several aggregates do so,
the smallest value is used.
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
        default=[],
        help="Image properties for image_props_weight_multiplier, each as name=ratio. If the list"
        " is empty, all properties count with a ratio of 1.",
    ),
    cfg.IntOpt(
        "max_io_ops_per_host",
        default=8,
        min=0,
        deprecated_opts=formerly("max_io_ops_per_host"),
        help="Number of instances busy with input and output (being built, resized, migrated,"
        " saved as an image, rescued or unshelved) at which IoOpsFilter and"
        " AggregateIoOpsFilter refuse a host. The metadata key of the same name of an"
        " aggregate overrides the number for AggregateIoOpsFilter.",
    ),
    cfg.IntOpt(
        "max_instances_per_host",
        default=50,
        min=1,
        deprecated_opts=formerly("max_instances_per_host"),
        help="Number of instances, stopped instances included, at which NumInstancesFilter and"
        " AggregateNumInstancesFilter refuse a host. The metadata key of the same name of an"
        " aggregate overrides the number for AggregateNumInstancesFilter.",
    ),
    cfg.ListOpt(
        "isolated_images",
        default=[],
        deprecated_opts=formerly("isolated_images"),
        help="UUIDs of images that may run on isolated_hosts only, for IsolatedHostsFilter.",
    ),
    cfg.ListOpt(
        "isolated_hosts",
        default=[],
        deprecated_opts=formerly("isolated_hosts"),
        help="Names of the hosts that are reserved for isolated_images, for IsolatedHostsFilter.",
    ),
    cfg.BoolOpt(
        "restrict_isolated_hosts_to_isolated_images",
        default=True,
        deprecated_opts=formerly("restrict_isolated_hosts_to_isolated_images"),
        help="Keep other images away from isolated_hosts.",
    ),
    cfg.StrOpt(
        "aggregate_image_properties_isolation_namespace",
        deprecated_opts=formerly("aggregate_image_properties_isolation_namespace"),
        help="Prefix of the aggregate metadata keys, before the separator, that"
        " AggregateImagePropertiesIsolation compares. The rest of the key names the image"
        " property.",
    ),
    cfg.StrOpt(
        "aggregate_image_properties_isolation_separator",
        default=".",
        deprecated_opts=formerly("aggregate_image_properties_isolation_separator"),
        help=(
            "Text between aggregate_image_properties_isolation_namespace and the name of the"
            " property."
        ),
    ),
    cfg.BoolOpt(
        "track_instance_changes",
        default=True,
        deprecated_opts=formerly("scheduler_tracks_instance_changes"),
        help="Process the casts of Nova's compute services about the instances of their hosts."
        " The scheduler then reads the rows of such a host again, and releases the claim of"
        " an instance that the host has deleted. The casts never tell the scheduler which"
        " instances a host has; rows and claims do. This option makes little difference"
        " where all hosts run berthmaster-agent, which reports changes itself.",
    ),
    cfg.ListOpt(
        "least_cost_functions",
        default=[],
        deprecated_opts=formerly("least_cost_functions"),
        help="Cost functions of Essex and Folsom to decide by instead of weight_classes:"
        " compute_fill_first_cost_fn, noop_cost_fn.",
    ),
    cfg.FloatOpt(
        "compute_fill_first_cost_fn_weight",
        default=-1.0,
        deprecated_opts=formerly("compute_fill_first_cost_fn_weight"),
        help="Cost of a MB of free memory, for compute_fill_first_cost_fn. The host with the"
        " least cost is chosen: a negative cost spreads instances over the hosts, a positive"
        " cost fills one host after the other.",
    ),
    cfg.FloatOpt(
        "noop_cost_fn_weight",
        default=1.0,
        deprecated_opts=formerly("noop_cost_fn_weight"),
        help="Cost of any host, for noop_cost_fn.",
    ),
]
