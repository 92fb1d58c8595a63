# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for aggregates that are reserved for flavors."""

from collections.abc import Iterable

from inventory.objects.aggregate import Aggregate
from scheduler.filters import HostState, RequestSpec
from scheduler.filters._reserved import ReservedFilter
from scheduler.hosts.aggregate_metadata import quoted, split_values


class AggregateTypeAffinityFilter(ReservedFilter):
    """Keep the hosts whose aggregates name no flavor, or the flavor of the request."""

    def names(self, aggregates: Iterable[Aggregate] | None) -> set[str]:
        return split_values(aggregates, "instance_type")

    def requested(self, spec: RequestSpec) -> str | None:
        return spec.flavor.name

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        flavors = quoted(self.names(host_state.aggregates))
        name = spec_obj.flavor.name
        asked = "names no flavor" if name is None else f"is for {name!r}"
        return f"is kept for the flavors {flavors}, the request {asked}"
