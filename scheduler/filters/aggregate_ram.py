# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for memory where aggregates say how far it is over-committed."""

from scheduler.decision.aggregate_metadata import overridden
from scheduler.decision.host_table import HostTable
from scheduler.decision.scaling import Weights
from scheduler.filters.ram import RamFilter


class AggregateRamFilter(RamFilter):
    """Keep the hosts with enough free memory, over-commit as their aggregates say.

    The smallest ram_allocation_ratio among their metadata counts, else the host's own.
    """

    def ratios(self, hosts: HostTable) -> Weights:
        return overridden(hosts, "ram_allocation_ratio", super().ratios(hosts))
