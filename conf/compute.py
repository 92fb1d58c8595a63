# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options that Nova's schedulers share with its compute services."""

from oslo_config import cfg

OPTS = [
    cfg.BoolOpt(
        "packing_host_numa_cells_allocation_strategy",
        mutable=True,
        default=False,
        help="Use the fullest NUMA cells of a host first instead of the emptiest.",
    ),
    cfg.StrOpt(
        "cpu_shared_set",
        help="""
CPUs of this host for guests without pinned CPUs, such as 4-12,^8,15. The default is all CPUs that
are online, or none where cpu_dedicated_set is set.

CPUs that are in neither cpu_shared_set nor cpu_dedicated_set are reserved for the host, so
reserved_host_cpus cannot be combined with these options. While a CPU of a set is not online, audits
fail. Without cpu_dedicated_set the host gets no pinned guests.
""",
    ),
    cfg.StrOpt(
        "cpu_dedicated_set",
        help="""
CPUs of this host for pinned guests, such as 4-12,^8,15. It must not overlap cpu_shared_set.

If neither set is given, guests are pinned to CPUs that other guests share; use aggregates to
separate guests with and without pinned CPUs.
""",
    ),
]
