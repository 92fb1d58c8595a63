# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""One destination of an answer, with its limits."""

from dataclasses import dataclass

from inventory.objects.object_schema import FieldPresence
from inventory.objects.pci_and_network import NetworkMetadata


@dataclass(frozen=True, slots=True)
class NUMATopologyLimits(FieldPresence):
    """The overcommit ratios per host cell."""

    cpu_allocation_ratio: float
    ram_allocation_ratio: float
    network_metadata: NetworkMetadata | None = None


# Limits and selections are not frozen: see scheduler.decision.types.
@dataclass(slots=True)
class SchedulerLimits(FieldPresence):
    """None means that no filter set a limit."""

    vcpu: float | None = None
    memory_mb: float | None = None
    disk_gb: float | None = None
    numa_topology: NUMATopologyLimits | None = None


@dataclass(slots=True)
class Selection(FieldPresence):
    """A host with what the caller needs to claim it.

    ``allocation_request`` is JSON text, or None without a claim in Placement. Callers look up an
    ``availability_zone`` of None.
    """

    service_host: str
    nodename: str
    compute_node_uuid: str = ""
    cell_uuid: str = ""
    limits: SchedulerLimits | None = None
    allocation_request: str | None = None
    allocation_request_version: str | None = None
    availability_zone: str | None = None


# For each instance its destination, followed by its alternates.
Answer = list[list[Selection]]
