# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What is in use on each host, kept beside those who decide, so that all are judged alike."""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from benchmarks.packing.fleets import Size

# The shape of an instance for which the room is measured.
GB_PER_VCPU = 4


class Ledger:
    """Instances on hosts, each as (host, size), oldest first; hosts are numbers."""

    def __init__(self, hosts: Sequence[Size]) -> None:
        self.instances: list[tuple[int, Size]] = []
        self._capacity = np.array(hosts, np.int64)
        self._free = self._capacity.copy()

    def room_for(self, size: Size) -> list[int]:
        """Return the hosts on which an instance fits: those that Placement would tell of."""
        found: list[int] = np.flatnonzero((self._free >= size).all(axis=1)).tolist()
        return found

    def take(self, host: int, size: Size) -> None:
        """Put an instance on a host."""
        self._free[host] -= size
        if (self._free[host] < 0).any():
            raise ValueError(f"host {host} has no room for {size}")
        self.instances.append((host, size))

    def leave(self, number: int) -> tuple[int, Size]:
        """Remove an instance; return where it was."""
        host, size = self.instances.pop(number)
        self._free[host] += size
        return host, size

    @property
    def shares(self) -> tuple[float, float, float]:
        """The shares of all vCPUs, of all RAM and of all disk that are in use."""
        used, all_of = (self._capacity - self._free).sum(axis=0), self._capacity.sum(axis=0)
        vcpus, ram, disk = (used / all_of.clip(1)).tolist()
        return vcpus, ram, disk

    @property
    def load(self) -> float:
        """The largest of them: of what the fleet runs out of."""
        return max(self.shares)

    @property
    def empty(self) -> int:
        """How many hosts have no instance."""
        return int((self._free == self._capacity).all(axis=1).sum())

    def largest(self, flavors: Iterable[Size]) -> int:
        """Return the GB of RAM of the flavor with most of it that fits on some host, else 0."""
        return max((each.ram_gb for each in flavors if self.room_for(each)), default=0)

    @property
    def largest_gap(self) -> int:
        """The most GB of RAM that some host has left together with the vCPUs for them."""
        vcpus: npt.NDArray[np.int64] = self._free[:, 0]
        return int(GB_PER_VCPU * np.minimum(vcpus, self._free[:, 1] // GB_PER_VCPU).max())
