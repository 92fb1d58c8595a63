# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Who keeps room for the instances of a rack that dies: we with standbys, and others.

All place instances with the same filters and weighers, and differ in what they refuse.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from benchmarks.packing.fleets import Size
from benchmarks.packing.placers import Ours, Settings
from inventory.objects import standby
from inventory.objects.aggregate import FAILURE_DOMAIN, Aggregate
from inventory.objects.amounts import NOTHING, Amounts, plus
from inventory.objects.standby import REQUIRED, DomainSums, Protection
from inventory.objects.standby_sums import NodeSums
from scheduler.hosts.host_state import usage_changes

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Admitted:
    """An instance that runs on a host, and the host of its standby; hosts are numbers."""

    size: Size
    host: int
    standby: int | None = None


class Unguarded(Ours):
    """Keeps nothing free."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.racks = np.array([], np.int64)

    def start(
        self, hosts: Sequence[Size], racks: Sequence[int], flavors: Mapping[Size, float]
    ) -> None:
        """Know these empty hosts, each in the rack of this number, and what is asked for."""
        self.begin(hosts, flavors)
        self.racks = np.array(racks)
        for row, rack in enumerate(racks):
            aggregate = Aggregate(name=f"rack {rack}", metadata={FAILURE_DOMAIN: f"rack {rack}"})
            self._hosts.set(row, "aggregates", [aggregate])
            self._hosts.set(row, "node_id", row)

    def admit(self, size: Size) -> Admitted | None:
        """Place an instance; None stands for its refusal."""
        placement = self.place(size)
        return None if placement is None else Admitted(size, placement.chosen.row)

    def end(self, instance: Admitted) -> None:
        """Take note that an instance has left."""
        self.leave(instance.host, instance.size)


class Slots(Unguarded):
    """VMware HA's slots: each is as large as the largest instance, of each resource by itself.

    As many instances run as there are slots on the hosts of all racks but any one.
    """

    def start(
        self, hosts: Sequence[Size], racks: Sequence[int], flavors: Mapping[Size, float]
    ) -> None:
        super().start(hosts, racks, flavors)
        self._capacity = np.array(hosts)
        self._slot = np.ones(3, np.int64)
        self._number = 0

    def admit(self, size: Size) -> Admitted | None:
        slot = np.maximum(self._slot, size)
        # Hosts may have no disk.
        slots = (self._capacity // slot)[:, self._capacity.any(axis=0)].min(axis=1)
        if self._number >= slots.sum() - np.bincount(self.racks, slots).max():
            return None
        found = super().admit(size)
        if found is not None:
            self._number, self._slot = self._number + 1, slot
        return found

    def end(self, instance: Admitted) -> None:
        super().end(instance)
        self._number -= 1


class SpareHosts(Unguarded):
    """The hosts of the last rack are kept empty, each for one host of every other rack.

    All instances of a host go to its spare host, as Masakari does it: anywhere on the spare hosts
    they would not fit. Racks have to be alike.
    """

    def start(
        self, hosts: Sequence[Size], racks: Sequence[int], flavors: Mapping[Size, float]
    ) -> None:
        super().start(hosts, racks, flavors)
        self._spare = np.flatnonzero(self.racks == self.racks.max())
        for row in self._spare.tolist():
            self._hosts.add_to(row, usage_changes(*amounts(hosts[row])))

    def admit(self, size: Size) -> Admitted | None:
        found = super().admit(size)
        if found is None:
            return None
        return replace(found, standby=int(self._spare[found.host % len(self._spare)]))


class OwnStandbys(Unguarded):
    """A standby for each instance, which shares its room with no other."""

    def admit(self, size: Size) -> Admitted | None:
        placement = self.place(size, Protection(REQUIRED, self._sums()))
        if placement is None:
            return None
        assert placement.standby is not None
        assert placement.standby.host is not None
        found = Admitted(size, placement.chosen.row, placement.standby.host.row)
        self._hold(found, 1)
        return found

    def end(self, instance: Admitted) -> None:
        super().end(instance)
        assert instance.standby is not None
        less = self._hold(instance, -1)
        self._hosts.add_to(instance.standby, usage_changes(*plus(NOTHING, less, -1)))

    def _sums(self) -> NodeSums:
        return NodeSums()

    def _hold(self, instance: Admitted, sign: int) -> Amounts:
        """Take note of a standby, or of its end; return how much less its host holds then."""
        return amounts(instance.size)


class SharedStandbys(OwnStandbys):
    """Our standbys: those of different racks share their room."""

    def start(
        self, hosts: Sequence[Size], racks: Sequence[int], flavors: Mapping[Size, float]
    ) -> None:
        super().start(hosts, racks, flavors)
        self._held: dict[int, DomainSums] = {}

    def _sums(self) -> NodeSums:
        return NodeSums(self._held)

    def _hold(self, instance: Admitted, sign: int) -> Amounts:
        assert instance.standby is not None
        before = self._held.get(instance.standby, {})
        domain = f"rack {self.racks[instance.host]}"
        after = standby.changed(before, [domain], amounts(instance.size), sign)
        self._held[instance.standby] = after
        return plus(standby.held(before), standby.held(after), -1)


def amounts(size: Size) -> Amounts:
    """Return a size as a claim has it."""
    return size.vcpus, 1024 * size.ram_gb, 1024 * size.disk_gb


def survives(capacity: Numbers, racks: Numbers, instances: Collection[Admitted], rack: int) -> bool:
    """Return whether all instances of a rack run again after its death.

    They are evacuated in the order in which they came, each to its standby if it has one, else to
    the host on which least is left.
    """
    free = capacity.copy()
    for each in instances:
        free[each.host] -= each.size
    free[racks == rack] = -1
    lost = [each for each in instances if racks[each.host] == rack]
    scale = capacity.max(axis=0).clip(1)
    for each in lost:
        fits = np.flatnonzero((free >= each.size).all(axis=1))
        if each.standby is not None:
            fits = fits[fits == each.standby]
        if not len(fits):
            return False
        left = ((free[fits] - each.size) / scale).sum(axis=1)
        free[fits[left.argmin()]] -= each.size
    return True
