# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for hosts without certain instances."""

from scheduler.decision.host_state import HostState
from scheduler.decision.host_table import HostTable, Mask
from scheduler.filters import BaseHostFilter, instance_hints
from scheduler.objects.request_spec import RequestSpec

HINT = "different_host"


class DifferentHostFilter(BaseHostFilter):
    """Keep the hosts that have none of the instances in the hint different_host."""

    run_filter_once_per_request = True

    def applies(self, spec: RequestSpec) -> bool:
        return bool(instance_hints.named(spec, HINT))

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        return ~instance_hints.hosts_of(hosts, instance_hints.named(spec, HINT))

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        there = [u for u in instance_hints.named(spec_obj, HINT) if u in host_state.instances]
        return f"has instances that the hint {HINT} names: {', '.join(there)}"
