# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of the compute agent: what it polls, how often, and what it keeps back for the host."""

from oslo_config import cfg, types


def _ratio(resource: str, initial: float) -> list[cfg.Opt]:
    return [
        cfg.FloatOpt(
            f"{resource}_allocation_ratio",
            min=0.0,
            mutable=True,
            help=f"""
Over-commit of {resource}: how much of it may be promised for each unit that the host has.

Set, it is written at every audit. Unset or 0.0, the row keeps the ratio it has, which starts as
initial_{resource}_allocation_ratio and may then be changed by an operator.
""",
        ),
        cfg.FloatOpt(
            f"initial_{resource}_allocation_ratio",
            default=initial,
            min=0.0,
            help=f"Over-commit of {resource} of a host that is seen for the first time.",
        ),
    ]


OPTS = [
    cfg.StrOpt(
        "compute_driver",
        default="libvirt",
        help="""
What is polled: the name of a driver in the namespace berthmaster.compute_agent.virt, or the dotted
path of a class. Nova's names libvirt.LibvirtDriver and fake.FakeDriver mean ours.
""",
    ),
    cfg.IntOpt(
        "update_resources_interval",
        default=60,
        mutable=True,
        help="""
Seconds between two audits of this host. 0 means 60. With a negative value only the start of the
agent, SIGHUP and what the driver hears of lead to audits.
""",
    ),
    cfg.StrOpt(
        "instances_path",
        default="$state_path/instances",
        help="""
Directory of the instances' disks. The file system that holds it, or would hold it, is the host's
local disk.
""",
    ),
    cfg.IntOpt(
        "reserved_host_memory_mb",
        default=512,
        min=0,
        mutable=True,
        help="Memory in MB that is kept for the host itself.",
    ),
    cfg.IntOpt(
        "reserved_host_disk_mb",
        default=0,
        min=0,
        mutable=True,
        help="Disk in MB that is kept for the host itself.",
    ),
    cfg.IntOpt(
        "reserved_host_cpus",
        default=0,
        min=0,
        mutable=True,
        help="CPUs that are kept for the host itself.",
    ),
    *_ratio("cpu", 4.0),
    *_ratio("ram", 1.0),
    *_ratio("disk", 1.0),
    cfg.StrOpt(
        "vcpu_pin_set",
        help="""
CPUs of this host for all guests, pinned or not, as 4-12,^8,15. The default is all that are online.

It is the older way: [compute] cpu_shared_set and cpu_dedicated_set replace it, and it cannot be
combined with them.
""",
    ),
    cfg.MultiOpt(
        "reserved_huge_pages",
        item_type=types.Dict(),
        help="""
Memory pages of a NUMA cell that are kept from guests, as node:0,size:2048,count:64. May be given
several times.

The size is in KiB or has a unit, as 2MB and 1GB. It may also be that of ordinary pages. A cell or
a size that this host does not have is ignored, so that hosts can share a file.
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
Seconds after which an audit writes the row of a node although nothing has changed.

It shows readers that the row is still true, and lets schedulers without claims give up what they
took for instances that never came. Audits in between write nothing.
""",
    ),
    cfg.BoolOpt(
        "allow_host_power_actions",
        default=False,
        mutable=True,
        help="""
Let operators start, reboot and shut down hosts through the agent, where its driver can do that.

Whoever may send messages to the broker may do so then; guests of such a host end with it.
""",
    ),
]


def audit_interval(conf: cfg.ConfigOpts) -> int | None:
    """Return the seconds between two audits, None for never."""
    if conf.update_resources_interval < 0:
        return None
    return int(conf.update_resources_interval or 60)


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS)
    conf.register_opts(AGENT_OPTS, group="compute_agent")


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [("DEFAULT", OPTS), ("compute_agent", AGENT_OPTS)]
