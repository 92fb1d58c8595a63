# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The mix of flavors: which sizes are usually asked for, and how often."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from scheduler.hosts.columns import total

# What an instance consumes: vCPUs, MB of memory, MB of local disk.
Size = tuple[int, int, int]
# Flavors that are asked for less often say little, and each one costs.
MAX_FLAVORS = 64
# Of vCPUs and of MB: what takes more is a mistake.
MAX_SIZE = 2**40
# As how many requests the instances that there are count.
PRESENT_COUNT = 50


@dataclass(frozen=True, slots=True)
class FlavorShare:
    """A size that is asked for, in vCPUs and MB, and its share of all instances, above 0 to 1."""

    vcpus: int
    memory_mb: int
    disk_mb: int
    share: float

    @property
    def size(self) -> Size:
        return self.vcpus, self.memory_mb, self.disk_mb


FlavorMix = tuple[FlavorShare, ...]


class FlavorArrays(NamedTuple):
    """A mix as arrays: of needs and inverses a row for each resource, of shares an element each.

    needs are vCPUs, MB of memory and MB of disk; inverses are 1 divided by them.
    """

    needs: npt.NDArray[np.float64]
    inverses: npt.NDArray[np.float64]
    shares: npt.NDArray[np.float64]

    @classmethod
    def of(cls, mix: FlavorMix) -> "FlavorArrays":
        needs = np.array([each.size for each in mix], np.float64).reshape(len(mix), 3).T.copy()
        with np.errstate(divide="ignore"):
            return cls(needs, 1 / needs, np.array([each.share for each in mix], np.float64))


def make_mix(weights: Mapping[Size, float]) -> FlavorMix:
    """Return the mix of sizes by how often they are asked for, in any unit; the most usual first.

    The same weights give the same mix, in whatever order they come.
    """
    positive = ((size, weight) for size, weight in weights.items() if weight > 0 and any(size))
    usual = sorted(positive, key=lambda item: (-item[1], item[0]))[:MAX_FLAVORS]
    all_weights = total(weight for _, weight in usual)
    return tuple(FlavorShare(*size, weight / all_weights) for size, weight in usual)


def learned_mix(requested: Mapping[Size, float], present: Mapping[Size, float]) -> FlavorMix:
    """Return the mix of what was asked for, and of the instances that there are.

    Both are numbers of instances by size. Those that there are count as PRESENT_COUNT requests in
    all: nearly alone at first, and hardly any more once enough was asked for.
    """
    instances = total(present.values())
    weights = dict(requested)
    for size, count in present.items():
        weights[size] = weights.get(size, 0.0) + PRESENT_COUNT * count / instances
    return make_mix(weights)
