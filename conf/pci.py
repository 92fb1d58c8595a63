# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of PCI devices for guests."""

from oslo_config import cfg

from conf.deprecated import formerly

OPTS = [
    cfg.MultiStrOpt(
        "device_spec",
        default=[],
        deprecated_opts=[
            cfg.DeprecatedOpt("passthrough_whitelist", group="pci"),
            *formerly("pci_passthrough_whitelist"),
        ],
        help="""
PCI devices of this host for guests: a JSON object or a list of objects; may be given several times.
The first object that matches a device gives its properties; a device without a match is not
reported. Read at start-up only.

Keys that select devices (all given keys must match; without any, every device does):

* vendor_id, product_id: up to four hexadecimal digits, or "*".
* address: "domain:bus:slot.function" in hexadecimal digits, with "*" or nothing for what may be
  anything, such as "0000:0a:00.1", "*:0a:*.*" or ":0a:00."; or an object of regular expressions
  named domain, bus, slot and function, each for the whole of its part. The address of a physical
  function stands for its virtual ones as well.
* devname: name of a network interface, instead of an address. Names may change with the kernel or
  the order of cards; an address or the two ids last longer.

Properties that requests may ask for: physical_network (null for none), trusted, remote_managed
(never a physical function) and live_migratable.

The keys managed, resource_class and traits of a nova.conf are ignored. one_time_use = true is
refused, since the use of devices is not recorded.

For example: {"vendor_id": "8086", "product_id": "10ed", "physical_network": "physnet1"}
""",
    )
]
