# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for hosts without certain instances."""

from scheduler.filters import HostState, HostTable, Mask, RequestSpec
from scheduler.filters._instance_hints import HintFilter
from scheduler.hosts.limits import APART


class DifferentHostFilter(HintFilter):
    """Keep the hosts without the instances in the hint different_host, and without their standbys.

    An instance that moves keeps apart from the standbys of those that name it in their hints, too.
    """

    hint = "different_host"

    def applies(self, spec: RequestSpec) -> bool:
        return super().applies(spec) or bool(spec.kept_apart or spec.ignore_hosts)

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        mask = ~super().mask(hosts, spec)
        for host in spec.kept_apart:
            mask[list(hosts.rows_of_host(host))] = False
        # Claims look again then.
        hosts.limits.make(APART, mask, lambda _: True)
        return mask

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        if host_state.host in spec_obj.kept_apart:
            return f"has a standby that the hint {self.hint} keeps apart from the instance"
        present = [uuid for uuid in self.named(spec_obj) if uuid in host_state.instances]
        return f"has instances that the hint {self.hint} names: {', '.join(present)}"
