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
Seconds after which a call to libvirt counts as hung. Reading the capabilities of a host can take
more than ten seconds; a poll takes milliseconds.
""",
    ),
    cfg.IntOpt(
        "reconnect_interval",
        default=5,
        min=1,
        help="Seconds between attempts to reach a libvirt that is gone, doubled up to a minute.",
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
