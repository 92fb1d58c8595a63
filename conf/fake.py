# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of the fake driver, with which one agent plays many hosts."""

from oslo_config import cfg

OPTS = [
    cfg.IntOpt(
        "hosts",
        default=1,
        min=1,
        help="""
Number of hosts to play. One of them is called as [DEFAULT] host; several get that name with -0001
and so on behind it, each with a service row of its own.
""",
    ),
    cfg.IntOpt(
        "nodes",
        default=1,
        min=0,
        mutable=True,
        help="""
Number of nodes of each host. One is called as its host; several get that name with -node-0001 and
so on behind it. Changed while the agent runs, nodes come and go with its next audit.
""",
    ),
    cfg.IntOpt(
        "guests",
        default=0,
        min=0,
        mutable=True,
        help="""
Number of guests of each node. Their sizes differ, and they are the same ones after a restart.
""",
    ),
    cfg.IntOpt("vcpus", default=16, min=0, help="CPUs of each node."),
    cfg.IntOpt("memory_mb", default=65536, min=0, help="Memory of each node in MB."),
    cfg.IntOpt("local_gb", default=1000, min=0, help="Disk of each node in GB."),
    cfg.IntOpt(
        "numa_cells",
        default=0,
        min=0,
        help="""
Number of NUMA cells that share the CPUs and the memory of each node. 0 is a node that tells of
none.
""",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, group="fake")


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [("fake", OPTS)]
