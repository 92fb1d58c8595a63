# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for vCPUs where aggregates say how far they are over-committed."""

from scheduler.decision import aggregate_metadata
from scheduler.decision.host_table import HostTable
from scheduler.decision.scaling import Weights
from scheduler.filters.core import CoreFilter


class AggregateCoreFilter(CoreFilter):
    """Keep the hosts with enough free vCPUs, over-commit as their aggregates say.

    The smallest cpu_allocation_ratio among their metadata counts, else the host's own.
    """

    def ratios(self, hosts: HostTable) -> Weights:
        own = super().ratios(hosts)
        found = aggregate_metadata.column(hosts, "cpu_allocation_ratio", own)
        return own if found is None else found
