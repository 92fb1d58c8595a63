# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What a table of hosts knows of each: the names of its columns and what they hold."""

import numpy as np

# Units are in the names; ratios are factors, updated is seconds since 1970 on the database's clock.
# heartbeat_age is seconds since the host's compute service was last seen, which was at last_seen
# on whatever clock the table's owner uses.
INTEGERS = (
    "node_id",
    "generation",
    "total_usable_ram_mb",
    "free_ram_mb",
    "total_usable_disk_gb",
    "free_disk_mb",
    "disk_mb_used",
    "vcpus_total",
    "vcpus_used",
    "num_instances",
    "num_io_ops",
    "failed_builds",
    # For how many builds that may fail elsewhere room is claimed here.
    "held_alternates",
)
FLOATS = (
    "cpu_allocation_ratio",
    "ram_allocation_ratio",
    "disk_allocation_ratio",
    "heartbeat_age",
    "last_seen",
    "updated",
)
# unserved: no compute service of the host is registered, so nobody would build an instance there.
FLAGS = ("service_disabled", "forced_down", "unserved")
OBJECTS = (
    "host",
    "nodename",
    "uuid",
    "cell_uuid",
    "host_ip",
    "hypervisor_type",
    "hypervisor_version",
    "hypervisor_hostname",
    "cpu_info",
    "supported_instances",
    "numa_topology",
    "pci_stats",
    "metrics",
    "stats",
    "aggregates",
    "disabled_reason",
    # What an attestation service says of the node, for TrustedFilter.
    "trust_level",
)
DTYPES: dict[str, type] = {
    **dict.fromkeys(INTEGERS, np.int64),
    **dict.fromkeys(FLOATS, np.float64),
    **dict.fromkeys(FLAGS, np.bool_),
}
NUMBERS = frozenset(DTYPES)


def unset(name: str) -> float:
    """Return what stands for None: ratios and ages have a number for it that fits nothing."""
    return np.nan if name in FLOATS else 0
