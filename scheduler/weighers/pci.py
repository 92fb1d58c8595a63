# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A weigher for PCI devices."""

from collections.abc import Hashable

from inventory.pci_pools import PciPools
from scheduler.decision.host_table import HostTable
from scheduler.decision.scaling import Weights
from scheduler.objects.request_spec import RequestSpec
from scheduler.weighers import BaseHostWeigher

MOST = 100


class PCIWeigher(BaseHostWeigher):
    """Prefer the hosts with fewer free PCI devices.

    An instance without devices thus leaves the hosts that have some to those that need them, and
    one with devices goes where they are scarcest. From 99 devices on more make no difference.
    """

    multiplier = 1.0
    aggregate_key = "pci_weight_multiplier"
    options = (("multiplier", "filter_scheduler", "pci_weight_multiplier"),)
    reads = ("pci_stats",)

    def question(self, spec: RequestSpec) -> Hashable | None:
        return ()

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Weights:
        return hosts.derived("pci_stats", "free devices", _few, float)


def _few(pools: PciPools | None) -> float:
    return MOST - min(pools.free() if pools is not None else 0, MOST - 1)
