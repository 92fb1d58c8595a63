# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of the devices that guests get for themselves."""

from oslo_config import cfg

from conf.former_names import formerly

OPTS = [
    cfg.MultiStrOpt(
        "device_spec",
        default=[],
        deprecated_opts=[
            *formerly("passthrough_whitelist", group="pci"),
            *formerly("pci_passthrough_whitelist"),
        ],
        help="""
The PCI devices of this host that may be given to guests: a JSON object, or a list of them. The
option can be given several times. The first object that fits a device decides what is told of it;
a device that none fits is never offered. Read at start-up only.

Keys that say which devices (all that are there have to fit, none at all fits every device):

* vendor_id, product_id: up to four hexadecimal digits, or "*".
* address: "domain:bus:slot.function" in hexadecimal digits, with "*" or nothing for what may be
  anything, such as "0000:0a:00.1", "*:0a:*.*" or ":0a:00."; or an object of regular expressions
  named domain, bus, slot and function, each for the whole of its part. The address of a physical
  function stands for its virtual ones as well.
* devname: name of a network interface, instead of an address. Names may change with the kernel or
  the order of cards; an address or the two ids last longer.

Keys that say what requests may ask for besides: physical_network (null for one that is no physical
network), trusted, remote_managed (never a physical function) and live_migratable.

managed, resource_class and traits are accepted, since a nova.conf has them, and change nothing.
one_time_use = true is refused: nothing here remembers that a device was used.

For example: {"vendor_id": "8086", "product_id": "10ed", "physical_network": "physnet1"}
""",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, group="pci")


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [("pci", OPTS)]
