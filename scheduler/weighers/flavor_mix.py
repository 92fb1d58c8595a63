# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A weigher for the room that hosts keep for the flavors that are usually asked for.

Source: the idea is that of fragmentation gradient descent for GPUs (Weng et al., "Beware of
Fragmentation", USENIX ATC 2023), here in whole copies of flavors, for vCPUs, memory and disk.
"""

import numpy as np

from inventory.fits import copies_of_each
from scheduler.hosts import resources
from scheduler.hosts.columns import FLAVOR_MIX
from scheduler.hosts.flavor_mix import FlavorArrays, FlavorMix
from scheduler.hosts.resources import Resource
from scheduler.weighers import BaseHostWeigher, HostTable, RequestSpec, Weights

# The number of hosts that are weighed at a time, so that they fit into the caches of a processor.
_BLOCK = 512
# Costs are whole numbers of this, so that sums of them are exact.
_UNIT = 2.0**-20


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
    reads = (*resources.COLUMNS, FLAVOR_MIX)
    request_fields = ("vcpus", "memory_mb", "disk_mb")

    # Of the mix of the last request, most likely that of the next.
    _known: tuple[FlavorMix, FlavorArrays] = ((), FlavorArrays.of(()))

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Weights:
        flavors = self._flavors(hosts.flavor_mix)
        needs = spec.vcpus, spec.memory_mb, spec.disk_mb
        every = resources.resources(hosts)
        # Absurd totals lead to infinities.
        with np.errstate(all="ignore"):
            weights = -_UNIT * _free_share(every, needs)
            for start in range(0, hosts.size if hosts.flavor_mix else 0, _BLOCK):
                rows = slice(start, start + _BLOCK)
                weights[rows] -= _cost([each.rows(rows) for each in every], needs, flavors)
        weights[~np.isfinite(weights)] = 0.0
        return weights

    def _flavors(self, mix: FlavorMix) -> FlavorArrays:
        known, flavors = self._known
        if known is not mix:
            flavors = FlavorArrays.of(mix)
            self._known = mix, flavors
        return flavors


def _cost(block: list[Resource], needs: tuple[int, ...], flavors: FlavorArrays) -> Weights:
    """Return for each host the copies that it loses, each with its weight."""
    free = [each.free for each in block]
    after = [each.free - need for each, need in zip(block, needs, strict=True)]
    lost = copies_of_each(free, flavors.inverses)
    lost -= copies_of_each(after, flavors.inverses)
    share = np.zeros(lost.shape)
    for each, wanted in zip(block, flavors.needs, strict=True):
        # None fits where the host does not have it physically, whatever the over-commit.
        if (each.total < each.free).any():
            lost[np.less.outer(each.total, wanted)] = 0.0
        np.maximum(share, np.multiply.outer(each.per_limit, wanted), out=share)
    share *= flavors.shares / _UNIT
    lost *= np.rint(share, out=share)
    return np.asarray(lost.sum(axis=1) * _UNIT)


def _free_share(every: list[Resource], needs: tuple[int, ...]) -> Weights:
    """Return for each host how much of it is free with the instance, from 0 to below 1.

    It is the mean of the resources that the host has.
    """
    shares = np.zeros(len(every[0].free))
    count = np.zeros(len(shares))
    for each, need in zip(every, needs, strict=True):
        shares += np.minimum(np.maximum((each.free - need) * each.per_limit, 0.0), 1.0)
        count += each.limit > 0
    return np.asarray(np.floor(shares / np.maximum(count, 1.0) * 2**20) / (2**20 + 1))
