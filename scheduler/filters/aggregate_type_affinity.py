# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for aggregates that are kept for certain flavors."""

from collections.abc import Iterable

from scheduler.decision import aggregate_metadata
from scheduler.decision.host_state import HostState
from scheduler.decision.host_table import HostTable, Mask
from scheduler.filters import BaseHostFilter
from scheduler.objects.aggregate import Aggregate
from scheduler.objects.request_spec import RequestSpec

KEY = "instance_type"


class AggregateTypeAffinityFilter(BaseHostFilter):
    """Keep the hosts whose aggregates name no flavor, or the flavor of the request."""

    run_filter_once_per_request = True

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        name = spec.flavor.name

        def admits(aggregates: Iterable[Aggregate] | None) -> bool:
            flavors = aggregate_metadata.split_values(aggregates, KEY)
            return not flavors or name in flavors

        return hosts.derived("aggregates", (self.name, name), admits, bool)

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        flavors = aggregate_metadata.split_values(host_state.aggregates, KEY)
        quoted = aggregate_metadata.quoted(flavors)
        return f"is kept for the flavors {quoted}, the request is for {spec_obj.flavor.name!r}"
