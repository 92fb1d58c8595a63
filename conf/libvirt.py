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
        help="""
libvirt URI to poll. Empty means qemu:///system (lxc:/// for virt_type lxc). test:///default is
libvirt's own imaginary host, for trying things out.
""",
    ),
    cfg.IntOpt(
        "call_timeout",
        default=60,
        min=1,
        help="""
Seconds after which a call to libvirt counts as hung, if it is one of those that are made once for
each connection: reading the capabilities of a host can take more than ten seconds.
""",
    ),
    cfg.IntOpt(
        "poll_timeout",
        default=10,
        min=1,
        help="""
Seconds after which any other call to libvirt counts as hung. It should take milliseconds. When it
is hung the host takes no new instances until libvirt answers again.
""",
    ),
    cfg.IntOpt(
        "keepalive_interval",
        default=5,
        min=0,
        help="""
Seconds between two signs of life that a connection to libvirt has to give while nothing else is
said on it. 0 asks for none: then a libvirt that hangs is noticed by the next audit only.
""",
    ),
    cfg.IntOpt(
        "keepalive_count",
        default=2,
        min=1,
        help="""
How many signs of life in a row may fail to come before a connection to libvirt counts as lost.
""",
    ),
    cfg.IntOpt(
        "reconnect_interval",
        default=5,
        min=1,
        help="Seconds between attempts to reach a libvirt that is gone, doubled up to a minute.",
    ),
    cfg.IntOpt(
        "file_backed_memory",
        default=0,
        min=0,
        help="""
Memory in MB that guests may have in all where files are their memory, as memory_backing_dir of
qemu.conf arranges. It takes the place of the host's memory; 0 means that guests have ordinary one.
""",
    ),
    cfg.StrOpt(
        "images_type",
        default="default",
        choices=("raw", "flat", "qcow2", "lvm", "rbd", "ploop", "default"),
        help="""
Where Nova puts the disks of guests on this host. With lvm or rbd the agent reports the size of the
volume group or of the Ceph cluster, for which it runs vgs or ceph; with all others, that of the
file system of instances_path.
""",
    ),
    cfg.StrOpt(
        "images_volume_group",
        help="Volume group of LVM that the disks of guests are in where images_type is lvm.",
    ),
    cfg.StrOpt(
        "images_rbd_pool",
        default="rbd",
        help="Pool of Ceph that the disks of guests are in where images_type is rbd.",
    ),
    cfg.StrOpt(
        "images_rbd_ceph_conf",
        default="",
        help="Configuration file of Ceph where images_type is rbd; the default is that of Ceph.",
    ),
    cfg.StrOpt(
        "rbd_user",
        help="""
Name of the Ceph client whose key the agent uses where images_type is rbd. The user berthmaster has
to be able to read its keyring.
""",
    ),
]


def uri(conf: cfg.ConfigOpts) -> str:
    """Return the URI to connect to."""
    if conf.libvirt.connection_uri:
        return str(conf.libvirt.connection_uri)
    return "lxc:///" if conf.libvirt.virt_type == "lxc" else "qemu:///system"


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, group="libvirt")


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [("libvirt", OPTS)]
