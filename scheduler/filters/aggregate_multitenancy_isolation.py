# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for aggregates that are kept for certain projects."""

from collections.abc import Iterable

from scheduler.decision import aggregate_metadata
from scheduler.decision.host_state import HostState
from scheduler.decision.host_table import HostTable, Mask
from scheduler.filters import BaseHostFilter
from scheduler.objects.aggregate import PROJECT_KEY, Aggregate
from scheduler.objects.request_spec import RequestSpec


class AggregateMultiTenancyIsolation(BaseHostFilter):
    """Keep the hosts whose aggregates name no project, or the project of the request.

    Other hosts stay open to a project that is named somewhere.
    """

    run_filter_once_per_request = True

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        def admits(aggregates: Iterable[Aggregate] | None) -> bool:
            projects = _projects(aggregates)
            return not projects or spec.project_id in projects

        return hosts.derived("aggregates", (self.name, spec.project_id), admits, bool)

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        projects = aggregate_metadata.quoted(_projects(host_state.aggregates))
        return f"is kept for the projects {projects}, the request is of {spec_obj.project_id!r}"


def _projects(aggregates: Iterable[Aggregate] | None) -> set[str]:
    keys = aggregate_metadata.keys(aggregates, PROJECT_KEY)
    return {each for key in keys for each in aggregate_metadata.split_values(aggregates, key)}
