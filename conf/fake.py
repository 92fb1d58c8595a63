# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of the fake driver, which simulates many hosts."""

from oslo_config import cfg

OPTS = [
    cfg.IntOpt(
        "hosts",
        default=1,
        min=1,
        help="Number of hosts. A single host has the name in [DEFAULT] host; several have"
        " suffixes such as -0001, and each has a service row of its own.",
    ),
    cfg.IntOpt(
        "nodes",
        default=1,
        min=0,
        mutable=True,
        help="Number of nodes of each host. A single node has the name of its host; several have"
        " suffixes such as -node-0001. If the number changes while the agent runs, the next"
        " audit adds or deletes nodes.",
    ),
    cfg.IntOpt(
        "guests",
        default=0,
        min=0,
        mutable=True,
        help="Number of guests of each node. Their sizes differ and are the same after a restart.",
    ),
    cfg.IntOpt("vcpus", default=16, min=0, help="CPUs of each node."),
    cfg.IntOpt("memory_mb", default=65536, min=0, help="Memory of each node in MB."),
    cfg.IntOpt("local_gb", default=1000, min=0, help="Disk of each node in GB."),
    cfg.IntOpt(
        "numa_cells",
        default=0,
        min=0,
        help="Number of NUMA cells that share the CPUs and the memory of each node; 0 for nodes"
        " without NUMA cells.",
    ),
]
