# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Which devices of a node are given to guests, and the pools of those that are free."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from compute_agent import device_spec
from compute_agent.device_spec import DeviceSpec
from compute_agent.virt.driver import PciDevice
from scheduler.objects.pci import PciDevicePool

Tags = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class _Alike:
    """What devices of one pool have in common."""

    vendor_id: str
    product_id: str
    numa_node: int | None
    tags: tuple[tuple[str, str | None], ...]

    @property
    def rank(self) -> tuple[object, ...]:
        """Where its pool stands, in the order in which pools are emptied.

        As in Nova those with few tags come first, so that what is special is left for requests
        that ask for it.
        """
        node = -1 if self.numa_node is None else self.numa_node
        return len(self.tags), self.vendor_id, self.product_id, node, repr(self.tags)


@dataclass(frozen=True, slots=True)
class DeviceSpecs:
    """The devices that may be given away, as the option [pci] device_spec says."""

    specs: tuple[DeviceSpec, ...] = ()

    @classmethod
    def parse(cls, values: Iterable[str]) -> "DeviceSpecs":
        """Read the values of the option; raises DeviceSpecError."""
        return cls(device_spec.parse(values))

    def pools(self, devices: Sequence[PciDevice], taken: Collection[str]) -> list[PciDevicePool]:
        """Return the pools of the devices that are allowed and whose addresses are not taken.

        With a physical function all its virtual ones are taken, and with any of those it is
        itself. A pool with nothing left is not among them.
        """
        by_address = {device.address: device for device in devices}
        split = {device.parent for device in devices if device.address in taken}
        counts: Counter[_Alike] = Counter()
        for device in by_address.values():
            if device.address in split or not {device.address, device.parent}.isdisjoint(taken):
                continue
            physical = by_address.get(device.parent) if device.parent else None
            tags = self._tags(device, physical)
            if tags is not None:
                kind = device.vendor_id, device.product_id, device.numa_node
                counts[_Alike(*kind, tuple(sorted(tags.items())))] += 1
        return [
            PciDevicePool(
                vendor_id=alike.vendor_id,
                product_id=alike.product_id,
                numa_node=alike.numa_node,
                count=counts[alike],
                tags=dict(alike.tags),
            )
            for alike in sorted(counts, key=lambda alike: alike.rank)
        ]

    def _tags(self, device: PciDevice, physical: PciDevice | None) -> Tags | None:
        """Return the tags of a device's pool, None for a device that may not be given away."""
        spec = next((each for each in self.specs if each.fits(device, physical)), None)
        if spec is None:
            return None
        tags: dict[str, str | None] = {"dev_type": device.kind}
        # Requests for ports of a network always name it, mostly with "False".
        if device.kind != "type-PCI":
            tags["remote_managed"] = "false"
        # Ports with a guaranteed bandwidth ask for virtual functions of one interface.
        if physical is not None and physical.interface:
            tags["parent_ifname"] = physical.interface
        return {**tags, **spec.tags}
