# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for availability zones."""

from scheduler.decision import aggregate_metadata
from scheduler.decision.host_state import HostState
from scheduler.filters import BaseHostFilter
from scheduler.objects.request_spec import RequestSpec


class AvailabilityZoneFilter(BaseHostFilter):
    """Keep the hosts of the requested availability zone.

    Zones are what the aggregates of a host name in their metadata; a host for which they name none
    is in the default zone.
    """

    run_filter_once_per_request = True
    reads = ("aggregates",)
    default_zone = "nova"
    options = (("default_zone", "DEFAULT", "default_availability_zone"),)

    def applies(self, spec: RequestSpec) -> bool:
        return bool(spec.availability_zone)

    def host_passes(self, host_state: HostState, spec_obj: RequestSpec) -> bool:
        if not spec_obj.availability_zone:
            return True
        return spec_obj.availability_zone in self._zones(host_state)

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        zones = ", ".join(sorted(self._zones(host_state)))
        return f"is in zone {zones}, not in {spec_obj.availability_zone}"

    def _zones(self, host_state: HostState) -> set[str]:
        zones = aggregate_metadata.split_values(host_state.aggregates, "availability_zone")
        return zones or {self.default_zone}
