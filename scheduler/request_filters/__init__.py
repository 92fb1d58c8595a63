# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Request filters look at a request as a whole, once and before the filters.

They are what is left of Nova's request filters where there is no Placement: those that go by
aggregates, and one that refuses what only Placement can judge. Forced hosts must pass them too.
Source: behaviour reference 3.3.
"""

from scheduler.filters import BaseHostFilter
from scheduler.request_filters.isolate_aggregates import IsolateAggregates
from scheduler.request_filters.map_az_to_placement_aggregate import MapAzToPlacementAggregate
from scheduler.request_filters.placement_only import PlacementOnly
from scheduler.request_filters.require_tenant_aggregate import RequireTenantAggregate

REQUEST_FILTERS: tuple[type[BaseHostFilter], ...] = (
    PlacementOnly,
    RequireTenantAggregate,
    MapAzToPlacementAggregate,
    IsolateAggregates,
)
