# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of the compute agent: driver, intervals, monitors and resources of the host."""

from oslo_config import cfg, types


def _ratio(resource: str, initial: float) -> list[cfg.Opt]:
    return [
        cfg.FloatOpt(
            f"{resource}_allocation_ratio",
            min=0.0,
            mutable=True,
            help=f"""
Over-commit ratio of {resource}: the number of units that instances may use for each unit of the
host.

If set, every audit writes this ratio. If unset or 0.0, the row of the host keeps its ratio, which
starts as initial_{resource}_allocation_ratio and may be changed by an operator.
""",
        ),
        cfg.FloatOpt(
            f"initial_{resource}_allocation_ratio",
            default=initial,
            min=0.0,
            help=f"Over-commit ratio of {resource} of a new host.",
        ),
    ]


OPTS = [
    cfg.StrOpt(
        "compute_driver",
        default="libvirt",
        help="Driver of the hypervisor: a name in the namespace berthmaster.compute_agent.virt, or"
        " the dotted path of a class. Nova's libvirt.LibvirtDriver and fake.FakeDriver stand for"
        " our drivers.",
    ),
    cfg.IntOpt(
        "update_resources_interval",
        default=60,
        mutable=True,
        help="Seconds between two audits of this host; 0 means 60. With a negative value the agent"
        " audits only at its start, on SIGHUP and on events of the driver.",
    ),
    cfg.StrOpt(
        "instances_path",
        default="$state_path/instances",
        help="Directory of the instances' disks; its file system is the local disk of the host.",
    ),
    cfg.IntOpt(
        "reserved_host_memory_mb",
        default=512,
        min=0,
        mutable=True,
        help="Memory in MB that is reserved for the host.",
    ),
    cfg.IntOpt(
        "reserved_host_disk_mb",
        default=0,
        min=0,
        mutable=True,
        help="Disk in MB that is reserved for the host.",
    ),
    cfg.IntOpt(
        "reserved_host_cpus",
        default=0,
        min=0,
        mutable=True,
        help="CPUs that are reserved for the host.",
    ),
    *_ratio("cpu", 4.0),
    *_ratio("ram", 1.0),
    *_ratio("disk", 1.0),
    cfg.StrOpt(
        "vcpu_pin_set",
        help="CPUs of this host for all guests, pinned or not, such as 4-12,^8,15. The default is"
        " all CPUs that are online. Deprecated: use [compute] cpu_shared_set and"
        " cpu_dedicated_set instead, which cannot be combined with this option.",
    ),
    cfg.ListOpt(
        "compute_monitors",
        default=[],
        help="""
Monitors whose metrics are stored in the rows of this agent's nodes, for MetricsFilter and
MetricsWeigher: names in the namespace berthmaster.compute_agent.monitors, one monitor for each
prefix.

cpu.virt_driver, or virt_driver, measures the use of the CPUs. With this monitor, every audit writes
the rows of the nodes, since its metrics always change.
""",
    ),
    cfg.MultiOpt(
        "reserved_huge_pages",
        item_type=types.Dict(),
        help="""
Memory pages of a NUMA cell that guests do not get, such as node:0,size:2048,count:64; may be given
several times.

The size is in KiB or has a unit, such as 2MB; it may be the size of ordinary pages. Cells and sizes
that this host does not have are ignored, so that hosts can share a file.
""",
    ),
]


AGENT_OPTS = [
    cfg.IntOpt(
        "refresh_interval",
        default=300,
        min=1,
        mutable=True,
        help="""
Seconds after which an audit writes the row of a node even if nothing has changed.

Readers then see that the row is still valid, and schedulers without claims give back what they
consumed for instances that were never built. Other audits without changes write nothing.
""",
    ),
    cfg.BoolOpt(
        "allow_host_power_actions",
        default=False,
        mutable=True,
        help="""
Allow operators to start, reboot and shut down hosts through the agent, if its driver can do so.

Every client of the broker may then do so; the guests of such a host are stopped.
""",
    ),
]


def audit_interval(conf: cfg.ConfigOpts) -> int | None:
    """Return the seconds between two audits, None for never."""
    if conf.update_resources_interval < 0:
        return None
    return int(conf.update_resources_interval or 60)
