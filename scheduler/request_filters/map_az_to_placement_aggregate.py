# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The request filter for availability zones."""

from scheduler.filters.availability_zone import AvailabilityZoneFilter
from scheduler.objects.request_spec import RequestSpec


class MapAzToPlacementAggregate(AvailabilityZoneFilter):
    """Keep the hosts of the requested availability zone, whatever filters are enabled.

    A forced host need not be in the default zone: ``nova:HOST`` names a host, and the zone only
    since there has to be one.
    """

    enabled = True
    options = (
        *AvailabilityZoneFilter.options,
        ("enabled", "scheduler", "query_placement_for_availability_zone"),
    )

    def applies(self, spec: RequestSpec) -> bool:
        if spec.has_forced_target and spec.availability_zone == self.default_zone:
            return False
        return self.enabled and super().applies(spec)
