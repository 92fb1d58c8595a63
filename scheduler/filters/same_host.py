# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for hosts with certain instances."""

from scheduler.decision.host_state import HostState
from scheduler.decision.host_table import HostTable, Mask
from scheduler.filters import BaseHostFilter, instance_hints
from scheduler.objects.request_spec import RequestSpec

HINT = "same_host"


class SameHostFilter(BaseHostFilter):
    """Keep the hosts that have at least one of the instances in the hint same_host."""

    run_filter_once_per_request = True

    def applies(self, spec: RequestSpec) -> bool:
        return bool(instance_hints.named(spec, HINT))

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        return instance_hints.hosts_of(hosts, instance_hints.named(spec, HINT))

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        named = instance_hints.named(spec_obj, HINT)
        return f"has none of the {len(named)} instances that the hint {HINT} names: {named}"
