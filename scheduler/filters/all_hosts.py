# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter that keeps all hosts."""

from scheduler.filters import BaseHostFilter, HostTable, Mask, RequestSpec


class AllHostsFilter(BaseHostFilter):
    """Keep all hosts, also those that are down, disabled or full."""

    run_filter_once_per_request = True

    def applies(self, spec: RequestSpec) -> bool:
        return False

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        return hosts.present
