# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Aggregates whose metadata reserve them."""

from collections.abc import Iterable

from inventory.objects.aggregate import Aggregate
from scheduler.filters import BaseHostFilter, HostTable, Mask, RequestSpec


class ReservedFilter(BaseHostFilter):
    """Keep the hosts whose aggregates name nothing, or the name in the request."""

    run_filter_once_per_request = True

    def names(self, aggregates: Iterable[Aggregate] | None) -> set[str]:
        """Return the names for which aggregates are reserved."""
        raise NotImplementedError

    def requested(self, spec: RequestSpec) -> str | None:
        """Return the name in the request."""
        raise NotImplementedError

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        requested = self.requested(spec)

        def admits(aggregates: Iterable[Aggregate] | None) -> bool:
            names = self.names(aggregates)
            return not names or requested in names

        return hosts.memo("aggregates", (self.name, requested), admits, bool)
