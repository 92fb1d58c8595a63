# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of the libvirt driver of the compute agent."""

from oslo_config import cfg

OPTS = [
    cfg.StrOpt(
        "virt_type",
        default="kvm",
        help="Kind of guests on this host (kvm, qemu, lxc, ...); it chooses the default URI.",
    ),
    cfg.StrOpt(
        "connection_uri",
        default="",
        # It may have an account.
        secret=True,
        help="URI of libvirt. Empty means qemu:///system (lxc:/// for virt_type lxc)."
        " test:///default is libvirt's own test host.",
    ),
    cfg.IntOpt(
        "call_timeout",
        default=60,
        min=1,
        help="Seconds after which a call to libvirt that the agent makes once per connection"
        " counts as hung. Reading the capabilities of a host can take more than ten seconds.",
    ),
    cfg.IntOpt(
        "poll_timeout",
        default=10,
        min=1,
        help="Seconds after which any other call to libvirt counts as hung. Calls should take"
        " milliseconds. While a call hangs, the host gets no new instances.",
    ),
    cfg.IntOpt(
        "keepalive_interval",
        default=5,
        min=0,
        help="Seconds between two keepalive messages on an idle connection to libvirt. 0 disables"
        " them: then only the next audit notices a libvirt that hangs.",
    ),
    cfg.IntOpt(
        "keepalive_count",
        default=2,
        min=1,
        help=(
            "Number of keepalive messages without a response after which a connection to libvirt"
            " counts as lost."
        ),
    ),
    cfg.IntOpt(
        "reconnect_interval",
        default=5,
        min=1,
        help=(
            "Seconds between attempts to reach libvirt after its connection was lost, doubled"
            " with each attempt up to a minute."
        ),
    ),
    cfg.BoolOpt(
        "cpu_power_management",
        default=False,
        help="Whether Nova's compute service switches CPUs of [compute] cpu_dedicated_set off"
        " while no guest uses them. If so, all CPUs of that set count, online or not. The"
        " agent itself switches no CPU.",
    ),
    cfg.IntOpt(
        "file_backed_memory",
        default=0,
        min=0,
        help="Memory in MB for all guests, if their memory is backed by files (memory_backing_dir"
        " of qemu.conf). This value replaces the memory of the host; 0 disables it.",
    ),
    cfg.StrOpt(
        "images_type",
        default="default",
        choices=("raw", "flat", "qcow2", "lvm", "rbd", "ploop", "default"),
        help="Storage of the disks of guests on this host. With lvm or rbd, the agent reports the"
        " size of the volume group or of the Ceph cluster, for which it runs vgs or ceph;"
        " otherwise it reports the size of the file system of instances_path.",
    ),
    cfg.StrOpt(
        "images_volume_group", help="LVM volume group of the disks of guests, for images_type lvm."
    ),
    cfg.StrOpt(
        "images_rbd_pool",
        default="rbd",
        help="Ceph pool of the disks of guests, for images_type rbd.",
    ),
    cfg.StrOpt(
        "images_rbd_ceph_conf",
        default="",
        help="Configuration file of Ceph, for images_type rbd; empty for Ceph's default.",
    ),
    cfg.StrOpt(
        "rbd_user",
        help="Name of the Ceph client, for images_type rbd. The user berthmaster must be able to"
        " read its keyring.",
    ),
]


def uri(conf: cfg.ConfigOpts) -> str:
    if conf.libvirt.connection_uri:
        return str(conf.libvirt.connection_uri)
    return "lxc:///" if conf.libvirt.virt_type == "lxc" else "qemu:///system"
