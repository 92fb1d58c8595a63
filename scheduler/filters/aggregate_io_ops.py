# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for input and output where aggregates say how much is allowed."""

from scheduler.decision import aggregate_metadata
from scheduler.decision.host_table import HostTable
from scheduler.decision.scaling import Weights
from scheduler.filters.io_ops import IoOpsFilter


class AggregateIoOpsFilter(IoOpsFilter):
    """Keep the hosts with fewer instances busy with input and output than their aggregates allow.

    The smallest max_io_ops_per_host among their metadata counts, else the option.
    """

    def allowed(self, hosts: HostTable) -> Weights:
        option = super().allowed(hosts)
        found = aggregate_metadata.column(hosts, "max_io_ops_per_host", option, int)
        return option if found is None else found
