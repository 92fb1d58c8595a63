# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What all nodes hold for standbys, as arrays for decisions."""

import json
from collections.abc import Collection
from functools import cached_property

import numpy as np
import numpy.typing as npt

from inventory.objects.amounts import NOTHING, Amounts
from inventory.objects.standby import DomainSums, held


class NodeSums(dict[int, DomainSums]):
    """What each failure domain would bring to nodes, by their ids. It is not changed any more.

    The arrays have a row of vCPUs, memory and disk for each node, in the order of ids.
    """

    @classmethod
    def of_text(cls, text: str) -> "NodeSums":
        """Return the sums of a text; raises ValueError and TypeError."""
        found = cls()
        for node_id, sums in dict(json.loads(text)).items():
            found[int(node_id)] = {str(name): _amounts(*each) for name, each in dict(sums).items()}
        return found

    @cached_property
    def text(self) -> str:
        """The sums as text, made once for all requests that are decided by them."""
        return json.dumps(self, separators=(",", ":"))

    @cached_property
    def ids(self) -> npt.NDArray[np.int64]:
        """The ids of the nodes."""
        return np.array([*self], np.int64)

    @cached_property
    def held(self) -> npt.NDArray[np.int64]:
        """What each node holds."""
        return np.array([held(each) for each in self.values()], np.int64).reshape(-1, 3)

    @cached_property
    def domains(self) -> npt.NDArray[np.int64]:
        """The number of failure domains for which each node holds anything."""
        return np.array([len(each) for each in self.values()], np.int64)

    def of(self, domains: Collection[str]) -> npt.NDArray[np.int64]:
        """Return the largest of what these failure domains would bring, of each resource."""
        found = np.zeros((len(self), 3), np.int64)
        for name in domains:
            if name not in self._by_domain:
                column = [each.get(name, NOTHING) for each in self.values()]
                self._by_domain[name] = np.array(column, np.int64).reshape(-1, 3)
            np.maximum(found, self._by_domain[name], out=found)
        return found

    @cached_property
    def _by_domain(self) -> dict[str, npt.NDArray[np.int64]]:
        return {}


def _amounts(vcpus: int, memory_mb: int, disk_mb: int) -> Amounts:
    return int(vcpus), int(memory_mb), int(disk_mb)
