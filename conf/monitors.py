# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of what a compute agent measures about its hosts."""

from oslo_config import cfg

OPTS = [
    cfg.ListOpt(
        "compute_monitors",
        default=[],
        help="""
Monitors whose metrics go into the rows of this agent's nodes, for MetricsFilter and MetricsWeigher:
names in the namespace berthmaster.compute_agent.monitors, one for each word before the dot.

cpu.virt_driver, or virt_driver for short, tells how busy the CPUs are. With it the row of a node is
written at every audit, since its metrics are always new.
""",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [("DEFAULT", OPTS)]
