# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The request filter for hosts that are set aside for projects."""

from collections.abc import Iterable

import numpy as np

from scheduler.decision import aggregate_metadata
from scheduler.decision.by_value import rows_where
from scheduler.decision.host_state import HostState
from scheduler.decision.host_table import HostTable, Mask
from scheduler.filters import BaseHostFilter
from scheduler.objects.aggregate import PROJECT_KEY, Aggregate
from scheduler.objects.request_spec import RequestSpec


class RequireTenantAggregate(BaseHostFilter):
    """Keep the hosts of the aggregates that are for the project of the request.

    A project that no aggregate is for may go anywhere, or nowhere where an aggregate is required.
    """

    enabled = False
    required = False
    options = (
        ("enabled", "scheduler", "limit_tenants_to_placement_aggregate"),
        ("required", "scheduler", "placement_aggregate_required_for_tenants"),
    )

    def applies(self, spec: RequestSpec) -> bool:
        return self.enabled

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        mask = rows_where(hosts, "aggregates", lambda found: _for_project(found, spec.project_id))
        # What is asked here is about the cloud: hosts that are no candidates count as well.
        return mask if mask.any() else np.full(hosts.size, not self.required)

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        names = ", ".join(str(each.name) for each in host_state.aggregates or ()) or "none"
        return f"no aggregate of the host ({names}) is for project {spec_obj.project_id}"


def _for_project(aggregates: Iterable[Aggregate] | None, project_id: str | None) -> bool:
    keys = aggregate_metadata.keys(aggregates, PROJECT_KEY)
    return any(project_id in aggregate_metadata.values(aggregates, key) for key in keys)
