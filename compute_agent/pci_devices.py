# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Which devices of a node are given to guests, and the pools of those that are free."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from compute_agent.virt.driver import PciDevice
from scheduler.objects.pci import PciDevicePool


@dataclass(frozen=True, slots=True)
class DeviceSpecs:
    """The devices that may be given away, as the option [pci] device_spec says."""

    specs: tuple[str, ...] = ()

    def pools(self, devices: Sequence[PciDevice], taken: Collection[str]) -> list[PciDevicePool]:
        """Return the pools of the devices that are allowed and whose addresses are not taken."""
        return []
