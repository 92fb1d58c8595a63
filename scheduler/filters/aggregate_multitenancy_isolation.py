# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for aggregates that are reserved for projects."""

from collections.abc import Iterable

from inventory.objects.aggregate import PROJECT_KEY, Aggregate
from scheduler.filters import HostState, RequestSpec
from scheduler.filters._reserved import ReservedFilter
from scheduler.hosts.aggregate_metadata import keys, quoted, split_values


class AggregateMultiTenancyIsolation(ReservedFilter):
    """Keep the hosts whose aggregates name no project, or the project of the request.

    A project that is named by some aggregates may still use the other hosts.
    """

    def names(self, aggregates: Iterable[Aggregate] | None) -> set[str]:
        found = (split_values(aggregates, key) for key in keys(aggregates, PROJECT_KEY))
        return set().union(*found)

    def requested(self, spec: RequestSpec) -> str | None:
        return spec.project_id

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        projects = quoted(self.names(host_state.aggregates))
        project = spec_obj.project_id
        asked = "names no project" if project is None else f"is of {project!r}"
        return f"is kept for the projects {projects}, the request {asked}"
