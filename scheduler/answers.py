# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""From a decision to the answer that callers get."""

from dataclasses import dataclass

from scheduler.decision import aggregate_metadata
from scheduler.decision.host_table import HostTable
from scheduler.decision.outcome import Candidate, Decision
from scheduler.objects.limits import SchedulerLimits
from scheduler.objects.request_spec import RequestSpec
from scheduler.objects.selection import Selection

Answer = list[list[Selection]]
# Stands for the cell of a host where neither the configuration nor the caller names one.
NO_CELL = "00000000-0000-0000-0000-00000000ce11"


@dataclass(frozen=True, slots=True)
class Answers:
    """What answers say besides the decision: the zone of hosts that are in none."""

    default_zone: str = "nova"

    def to(self, decision: Decision, hosts: HostTable, spec: RequestSpec) -> Answer:
        """Return for each instance its destination, followed by its alternates."""
        return [
            [
                self._selection(hosts, candidate, spec)
                for candidate in (placement.chosen, *placement.alternates)
            ]
            for placement in decision.placements
        ]

    def _selection(self, hosts: HostTable, candidate: Candidate, spec: RequestSpec) -> Selection:
        aggregates = hosts.get(candidate.row, "aggregates")
        zones = aggregate_metadata.split_values(aggregates, "availability_zone")
        destination = spec.requested_destination
        asked_cell = destination.cell.uuid if destination and destination.cell else None
        return Selection(
            service_host=candidate.host,
            nodename=candidate.nodename,
            compute_node_uuid=candidate.uuid or "",
            cell_uuid=candidate.cell_uuid or asked_cell or NO_CELL,
            limits=SchedulerLimits(
                vcpu=candidate.limits.get("vcpu"),
                memory_mb=candidate.limits.get("memory_mb"),
                disk_gb=candidate.limits.get("disk_gb"),
                numa_topology=candidate.limits.get("numa_topology"),
            ),
            availability_zone=min(zones, default=self.default_zone),
        )
