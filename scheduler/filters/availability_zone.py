# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for availability zones."""

from collections.abc import Hashable, Iterable
from typing import ClassVar

from scheduler.decision import aggregate_metadata
from scheduler.decision.by_value import rows_where
from scheduler.decision.host_state import HostState
from scheduler.decision.host_table import HostTable, Mask
from scheduler.decision.settings import Options
from scheduler.filters import BaseHostFilter
from scheduler.objects.aggregate import Aggregate
from scheduler.objects.request_spec import RequestSpec


class AvailabilityZoneFilter(BaseHostFilter):
    """Keep the hosts of the requested availability zone.

    Zones are what the aggregates of a host name in their metadata; a host for which they name none
    is in the default zone.
    """

    run_filter_once_per_request = True
    default_zone = "nova"
    options: ClassVar[Options] = (("default_zone", "DEFAULT", "default_availability_zone"),)
    reads = ("aggregates",)

    def applies(self, spec: RequestSpec) -> bool:
        return bool(spec.availability_zone)

    def question(self, spec: RequestSpec) -> Hashable | None:
        return spec.availability_zone

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        wanted = spec.availability_zone
        return rows_where(hosts, "aggregates", lambda found: wanted in self._zones(found))

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        zones = ", ".join(zone or "''" for zone in sorted(self._zones(host_state.aggregates)))
        return f"is in zone {zones}, not in {spec_obj.availability_zone}"

    def _zones(self, aggregates: Iterable[Aggregate] | None) -> set[str]:
        zones = aggregate_metadata.split_values(aggregates, "availability_zone")
        return zones or {self.default_zone}
