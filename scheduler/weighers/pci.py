# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A weigher for PCI devices."""

from inventory.pci_pools import PciPools
from scheduler.weighers import BaseHostWeigher, HostTable, RequestSpec, Weights

MAX_DEVICES = 100


class PCIWeigher(BaseHostWeigher):
    """Prefer the hosts with fewer free PCI devices.

    An instance without devices leaves hosts with devices to those that need them; one with devices
    goes where they are scarcest. Above 99 the number of devices makes no difference.
    """

    aggregate_key = "pci_weight_multiplier"
    options = (("multiplier", "filter_scheduler", "pci_weight_multiplier"),)
    reads = ("pci_stats",)
    row_local = True

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Weights:
        return hosts.memo("pci_stats", "free devices", _weight, float)


def _weight(pools: PciPools | None) -> float:
    return MAX_DEVICES - min(pools.free() if pools is not None else 0, MAX_DEVICES - 1)
