# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for PCI devices."""

from collections.abc import Sequence
from dataclasses import replace

from inventory.objects.pci_and_network import InstancePCIRequest
from inventory.pci_pools import PciPools
from scheduler.base_plugin import PCI_DEVICES, ResourceShortfall
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

    def lack(self, host_state: HostState, spec_obj: RequestSpec) -> ResourceShortfall | None:
        requests = spec_obj.devices
        pools = host_state.pci_stats
        # Where there is no such device, none can be freed.
        if pools is None or not pools.reports(requests):
            return None
        wanted = sum(each.count for each in requests)
        least = max(1, wanted - pools.free())
        missing = next(
            (n for n in range(least, wanted) if pools.support_requests(_fewer(requests, n))), wanted
        )
        return ResourceShortfall(PCI_DEVICES, missing)

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        requests = spec_obj.devices
        if host_state.pci_stats is None:
            return f"{PciPools().refusal(requests)} yet"
        return str(host_state.pci_stats.refusal(requests))


def _fewer(requests: Sequence[InstancePCIRequest], number: int) -> list[InstancePCIRequest]:
    """Return requests for a number of devices fewer, of the last ones first."""
    found = []
    for each in reversed(requests):
        less = min(number, each.count)
        number -= less
        found.append(replace(each, count=each.count - less))
    return found[::-1]
