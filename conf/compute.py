# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options that Nova's schedulers share with its compute services."""

from oslo_config import cfg

OPTS = [
    cfg.BoolOpt(
        "packing_host_numa_cells_allocation_strategy",
        mutable=True,
        default=False,
        help="""
Fill one NUMA cell of a host after the other instead of taking the emptiest first.
""",
    ),
    cfg.StrOpt(
        "cpu_shared_set",
        help="""
CPUs of this host for guests whose CPUs float, as 4-12,^8,15. The default is all that are online,
or none where cpu_dedicated_set is set.

CPUs that are in neither set are the host's own, which is why reserved_host_cpus cannot be used
with them. A CPU that is named here and is not online stops the audits until it is, or the agent is
restarted with other sets. Where cpu_dedicated_set is not set, the host takes no pinned guests.
""",
    ),
    cfg.StrOpt(
        "cpu_dedicated_set",
        help="""
CPUs of this host for guests that are pinned, as 4-12,^8,15. It must not overlap cpu_shared_set.

Without any of the two sets, guests are pinned to the CPUs that other guests float on, and it takes
aggregates to keep the two kinds apart.
""",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, group="compute")


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [("compute", OPTS)]
