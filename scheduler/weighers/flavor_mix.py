# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A weigher for the room that hosts keep for the flavors that are usually asked for.

Source: the idea is that of fragmentation gradient descent for GPUs (Weng et al., "Beware of
Fragmentation", USENIX ATC 2023), here in whole copies of flavors, for vCPUs, memory and disk.
"""

from typing import Any, NamedTuple

import numpy as np

from inventory.fits import copies_of_each
from scheduler.hosts import resources
from scheduler.hosts.columns import FLAVOR_MIX
from scheduler.hosts.flavor_mix import FlavorArrays, FlavorMix
from scheduler.hosts.resources import Resource
from scheduler.weighers import BaseHostWeigher, HostTable, RequestSpec, Weights

# The number of hosts that are weighed at a time, so that they fit into the caches of a processor.
_BLOCK = 512
# From how many hosts on weights of the last sizes are kept, and of how many sizes: a host that has
# not changed is not weighed again, which takes a hundred times as long as to compare its figures.
_MANY, _KEPT = 1024, 8
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
    row_local = True

    # Of the mix of the last request, most likely that of the next.
    _known: tuple[FlavorMix, FlavorArrays] = ((), FlavorArrays.of(()))

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._last: dict[tuple[int, ...], _Weighed] = {}

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Weights:
        needs = spec.vcpus, spec.memory_mb, spec.disk_mb
        if hosts.size < _MANY:
            return self._weigh(hosts, needs)
        figures = np.array([getattr(hosts, name) for name in resources.COLUMNS])
        before = self._last.pop(needs, None)
        if before is None or before.mix is not hosts.flavor_mix or not before.fits(figures):
            weights = self._weigh(hosts, needs)
        else:
            rows = np.flatnonzero((figures != before.figures).any(axis=0))
            weights = before.weights.copy()
            if len(rows):
                weights[rows] = self._weigh(hosts.part(rows), needs)
        # Requests of other threads may come in between: each entry is right by itself.
        self._last[needs] = _Weighed(hosts.flavor_mix, figures, weights)
        for oldest in [*self._last][:-_KEPT]:
            self._last.pop(oldest, None)
        return weights

    def _weigh(self, hosts: HostTable, needs: tuple[int, int, int]) -> Weights:
        flavors = self._flavors(hosts.flavor_mix)
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


class _Weighed(NamedTuple):
    """The weights of all hosts for one size, with the mix and the figures that they follow from."""

    mix: FlavorMix
    figures: Weights
    weights: Weights

    def fits(self, figures: Weights) -> bool:
        """Return whether there are as many hosts."""
        return self.figures.shape == figures.shape


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
