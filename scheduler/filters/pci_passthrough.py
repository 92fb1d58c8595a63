# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for PCI devices."""

from inventory.pci_pools import PciPools
from scheduler.filters import BaseHostFilter, HostState, HostTable, Mask, RequestSpec


class PciPassthroughFilter(BaseHostFilter):
    """Keep the hosts with enough free PCI devices of the requested kinds.

    NUMATopologyFilter looks at the cells that the devices are near to.
    """

    def applies(self, spec: RequestSpec) -> bool:
        return bool(spec.devices)

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        requests = spec.devices

        def passes(pools: PciPools | None) -> bool:
            return pools is not None and pools.support_requests(requests)

        # The same few kinds of requests come again and again.
        key = repr([(each.count, each.spec) for each in requests])
        return hosts.memo("pci_stats", (self.name, key), passes, bool)

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        requests = spec_obj.devices
        if host_state.pci_stats is None:
            return f"{PciPools().refusal(requests)}: never reported"
        return str(host_state.pci_stats.refusal(requests))
