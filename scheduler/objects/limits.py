# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How far a host may be filled by this request: what the claim has to hold."""

from dataclasses import dataclass

from scheduler.objects.network import NetworkMetadata
from scheduler.objects.presence import FieldPresence


@dataclass(frozen=True, slots=True)
class NUMATopologyLimits(FieldPresence):
    """The overcommit ratios per host cell."""

    cpu_allocation_ratio: float
    ram_allocation_ratio: float
    network_metadata: NetworkMetadata | None = None


@dataclass(frozen=True, slots=True)
class SchedulerLimits(FieldPresence):
    """None means that no filter set a limit."""

    vcpu: float | None = None
    memory_mb: float | None = None
    disk_gb: float | None = None
    numa_topology: NUMATopologyLimits | None = None
