# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for the number of instances where aggregates say how many are allowed."""

from collections.abc import Hashable

from scheduler.decision.aggregate_metadata import overridden
from scheduler.decision.host_table import HostTable
from scheduler.decision.scaling import Weights
from scheduler.filters.num_instances import NumInstancesFilter
from scheduler.objects.request_spec import RequestSpec


class AggregateNumInstancesFilter(NumInstancesFilter):
    """Keep the hosts with fewer instances than their aggregates allow, stopped ones included.

    The smallest max_instances_per_host among their metadata counts, else the option.
    """

    reads = (*NumInstancesFilter.reads, "aggregates")

    def question(self, spec: RequestSpec) -> Hashable | None:
        return super().question(spec)

    def allowed(self, hosts: HostTable) -> Weights:
        return overridden(hosts, "max_instances_per_host", super().allowed(hosts), int)
