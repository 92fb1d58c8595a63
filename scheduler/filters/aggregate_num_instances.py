# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for the number of instances where aggregates say how many are allowed."""

from scheduler.decision import aggregate_metadata
from scheduler.decision.host_table import HostTable
from scheduler.decision.scaling import Weights
from scheduler.filters.num_instances import NumInstancesFilter


class AggregateNumInstancesFilter(NumInstancesFilter):
    """Keep the hosts with fewer instances than their aggregates allow, stopped ones included.

    The smallest max_instances_per_host among their metadata counts, else the option.
    """

    def allowed(self, hosts: HostTable) -> Weights:
        option = super().allowed(hosts)
        found = aggregate_metadata.column(hosts, "max_instances_per_host", option, int)
        return option if found is None else found
