# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A weigher for the room that hosts keep for the flavors that are usually asked for.

Source: the idea is that of fragmentation gradient descent for GPUs (Weng et al., "Beware of
Fragmentation", USENIX ATC 2023), here in whole copies of flavors, for vCPUs, memory and disk.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from inventory.fits import copies_of_each, limit
from scheduler.hosts.columns import FLAVOR_MIX, Column, Weights
from scheduler.hosts.flavor_mix import FlavorMix
from scheduler.weighers import BaseHostWeigher, HostTable, RequestSpec

# The number of hosts that are weighed at a time, so that they fit into the caches of a processor.
_BLOCK = 512
# Costs are whole numbers of this, so that sums of them are exact.
_UNIT = 2.0**-20


class Flavors(NamedTuple):
    """A mix as arrays: a row for each resource, an element for each flavor.

    needs are amounts, inverses are 1 divided by them. shares are how often each is asked for.
    """

    needs: npt.NDArray[np.float64]
    inverses: npt.NDArray[np.float64]
    shares: npt.NDArray[np.float64]

    @classmethod
    def of(cls, mix: FlavorMix) -> "Flavors":
        needs = np.array([each.size for each in mix], np.float64).reshape(len(mix), 3).T.copy()
        with np.errstate(divide="ignore"):
            return cls(needs, 1 / needs, np.array([each.share for each in mix], np.float64))


class Resource(NamedTuple):
    """What hosts have of a resource, physically and with over-commit, and what is free of it.

    per_limit is 1 divided by the limit, 0 for a host without the resource.
    """

    total: Column
    limit: Weights
    per_limit: Weights
    free: Weights


class FlavorMixWeigher(BaseHostWeigher):
    """Prefer the hosts on which the instance takes the least room from usual flavors.

    The cost of a host is how many copies fewer of each usual flavor fit on it with the instance
    than without. A copy counts by how often its flavor is asked for, times its share of the host:
    of the resource of which it takes the largest one. Of hosts that cost the same, the fuller one
    is preferred, as it is while no mix is known.
    """

    multiplier = 0.0
    aggregate_key = "flavor_mix_weight_multiplier"
    options = (("multiplier", "flavor_mix", "weight_multiplier"),)
    reads = (
        "vcpus_total",
        "cpu_allocation_ratio",
        "vcpus_used",
        "total_usable_ram_mb",
        "ram_allocation_ratio",
        "free_ram_mb",
        "total_usable_disk_gb",
        "disk_allocation_ratio",
        "free_disk_mb",
        FLAVOR_MIX,
    )
    request_fields = ("vcpus", "memory_mb", "disk_mb")

    # Of the mix of the last request, most likely that of the next.
    _known: tuple[FlavorMix, Flavors] = ((), Flavors.of(()))

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Weights:
        flavors = self._flavors(hosts.flavor_mix)
        needs = spec.vcpus, spec.memory_mb, spec.disk_mb
        # Absurd ratios and totals lead to infinities.
        with np.errstate(all="ignore"):
            resources = _resources(hosts)
            weights = -_UNIT * _free_share(resources, needs)
            for start in range(0, hosts.size if hosts.flavor_mix else 0, _BLOCK):
                rows = slice(start, start + _BLOCK)
                block = [Resource(*(each[rows] for each in all_of)) for all_of in resources]
                weights[rows] -= _cost(block, needs, flavors)
        weights[~np.isfinite(weights)] = 0.0
        return weights

    def _flavors(self, mix: FlavorMix) -> Flavors:
        known, flavors = self._known
        if known is not mix:
            flavors = Flavors.of(mix)
            self._known = mix, flavors
        return flavors


def _resources(hosts: HostTable) -> list[Resource]:
    ram, disk = hosts.total_usable_ram_mb, hosts.total_usable_disk_gb * 1024
    return [
        _resource(hosts.vcpus_total, hosts.cpu_allocation_ratio, hosts.vcpus_used),
        _resource(ram, hosts.ram_allocation_ratio, ram - hosts.free_ram_mb),
        _resource(disk, hosts.disk_allocation_ratio, disk - hosts.free_disk_mb),
    ]


def _resource(total: Column, ratio: Column, used: Column) -> Resource:
    # What instances take is whole, so a fraction of a limit is of no use.
    limits = np.floor(limit(total, ratio))
    limits[~((limits > 0) & (limits < np.inf))] = 0.0
    return Resource(total, limits, np.where(limits, 1 / limits, 0.0), limits - used)


def _cost(resources: list[Resource], needs: tuple[int, ...], flavors: Flavors) -> Weights:
    """Return for each host the copies that it loses, each with its weight."""
    free = [each.free for each in resources]
    after = [each.free - need for each, need in zip(resources, needs, strict=True)]
    lost = copies_of_each(free, flavors.inverses)
    lost -= copies_of_each(after, flavors.inverses)
    share = np.zeros(lost.shape)
    for each, wanted in zip(resources, flavors.needs, strict=True):
        # None fits where the host does not have it physically, whatever the over-commit.
        if (each.total < each.limit).any():
            lost[np.less.outer(each.total, wanted)] = 0.0
        np.maximum(share, np.multiply.outer(each.per_limit, wanted), out=share)
    share *= flavors.shares / _UNIT
    lost *= np.rint(share, out=share)
    return np.asarray(lost.sum(axis=1) * _UNIT)


def _free_share(resources: list[Resource], needs: tuple[int, ...]) -> Weights:
    """Return for each host how much of it is free with the instance, from 0 to below 1.

    It is the mean of the resources that the host has.
    """
    shares = np.zeros(len(resources[0].free))
    count = np.zeros(len(shares))
    for each, need in zip(resources, needs, strict=True):
        shares += np.minimum(np.maximum((each.free - need) * each.per_limit, 0.0), 1.0)
        count += each.limit > 0
    return np.floor(shares / np.maximum(count, 1.0) * 2**20) / (2**20 + 1)
