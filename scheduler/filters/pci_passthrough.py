# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for PCI devices that instances are given."""

from inventory.pci_pools import PciPools
from scheduler.decision.host_state import HostState
from scheduler.decision.host_table import HostTable, Mask
from scheduler.filters import BaseHostFilter
from scheduler.objects.request_spec import RequestSpec


class PciPassthroughFilter(BaseHostFilter):
    """Keep the hosts with enough free PCI devices of the requested kinds.

    On which cell of a host the devices are is the business of NUMATopologyFilter.
    """

    def applies(self, spec: RequestSpec) -> bool:
        return bool(spec.devices)

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        requests = spec.devices

        def passes(pools: PciPools | None) -> bool:
            return pools is not None and pools.support_requests(requests)

        # Few kinds of requests come again and again: what was found out is worth remembering.
        asked = repr([(each.count, each.spec) for each in requests])
        return hosts.derived("pci_stats", (self.name, asked), passes, bool)

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        requests = spec_obj.devices
        if host_state.pci_stats is None:
            return f"{PciPools().refusal(requests)}: never reported"
        return str(host_state.pci_stats.refusal(requests))
