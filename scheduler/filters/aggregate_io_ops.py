# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for input and output where aggregates say how much is allowed."""

from collections.abc import Hashable

from scheduler.decision.aggregate_metadata import overridden
from scheduler.decision.host_table import HostTable
from scheduler.decision.scaling import Weights
from scheduler.filters.io_ops import IoOpsFilter
from scheduler.objects.request_spec import RequestSpec


class AggregateIoOpsFilter(IoOpsFilter):
    """Keep the hosts with fewer instances busy with input and output than their aggregates allow.

    The smallest max_io_ops_per_host among their metadata counts, else the option.
    """

    reads = (*IoOpsFilter.reads, "aggregates")

    def question(self, spec: RequestSpec) -> Hashable | None:
        return super().question(spec)

    def allowed(self, hosts: HostTable) -> Weights:
        return overridden(hosts, "max_io_ops_per_host", super().allowed(hosts), int)
