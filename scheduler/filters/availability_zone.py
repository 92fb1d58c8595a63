# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for availability zones."""

from collections.abc import Iterable
from typing import ClassVar

from inventory.objects.aggregate import Aggregate
from scheduler.base_plugin import Options
from scheduler.filters import BaseHostFilter, HostState, HostTable, Mask, RequestSpec
from scheduler.hosts import aggregate_metadata


class AvailabilityZoneFilter(BaseHostFilter):
    """Keep the hosts of the requested availability zone.

    The metadata of aggregates name the zones of their hosts; other hosts are in the default zone.
    """

    run_filter_once_per_request = True
    default_zone = "nova"
    options: ClassVar[Options] = (("default_zone", "DEFAULT", "default_availability_zone"),)
    reads = ("aggregates",)
    row_local = True

    def applies(self, spec: RequestSpec) -> bool:
        return bool(spec.availability_zone)

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        wanted = spec.availability_zone
        return hosts.rows_where("aggregates", lambda found: wanted in self._zones(found))

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        zones = ", ".join(zone or "''" for zone in sorted(self._zones(host_state.aggregates)))
        return f"is in zone {zones}, not in {spec_obj.availability_zone}"

    def _zones(self, aggregates: Iterable[Aggregate] | None) -> set[str]:
        zones = aggregate_metadata.split_values(aggregates, "availability_zone")
        return zones or {self.default_zone}
