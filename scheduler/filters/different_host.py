# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for hosts without certain instances."""

from scheduler.filters import HostState, HostTable, Mask, RequestSpec
from scheduler.filters._instance_hints import HintFilter


class DifferentHostFilter(HintFilter):
    """Keep the hosts that have none of the instances in the hint different_host."""

    hint = "different_host"

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        return ~super().mask(hosts, spec)

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        present = [uuid for uuid in self.named(spec_obj) if uuid in host_state.instances]
        return f"has instances that the hint {self.hint} names: {', '.join(present)}"
