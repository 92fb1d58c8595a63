# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A weigher for the proportions of what is free on a host and what is requested.

Source: the dot-product heuristics for vector bin packing (Panigrahy, Talwar, Uyeda and Wieder,
"Heuristics for Vector Bin Packing", 2011), here with both vectors at length 1. Nova has none.
"""

import numpy as np

from inventory.fits import limit
from scheduler.hosts import resources
from scheduler.weighers import BaseHostWeigher, HostTable, RequestSpec, Weights


class AlignmentWeigher(BaseHostWeigher):
    """Prefer the hosts whose free vCPUs, memory and disk are in proportion to the request.

    The weight is the cosine between requested and free amounts, each as a share of the host's
    limit. A resource of which a host has nothing does not count.
    """

    multiplier = 0.0
    aggregate_key = "alignment_weight_multiplier"
    options = (("multiplier", "alignment", "weight_multiplier"),)
    reads = resources.COLUMNS
    row_local = True

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Weights:
        product, needed_squared, free_squared = np.zeros((3, hosts.size))
        # Absurd ratios lead to infinities, and these to a weight of 0.
        with np.errstate(all="ignore"):
            for kind in resources.KINDS:
                total, used = kind.amounts(hosts)
                capacity = limit(total, getattr(hosts, kind.ratio))
                capacity[~(np.isfinite(capacity) & (capacity > 0))] = 0.0
                share = np.where(capacity, 1 / capacity, 0.0)
                # In place, since getting memory for results costs more than the arithmetic.
                free = np.subtract(capacity, used, out=capacity)
                np.maximum(free, 0.0, out=free)
                free *= share
                needed = np.multiply(share, getattr(spec, kind.name), out=share)
                product += needed * free
                needed_squared += np.square(needed, out=needed)
                free_squared += np.square(free, out=free)
            needed_squared *= free_squared
            product /= np.sqrt(needed_squared, out=needed_squared)
        product[~np.isfinite(product)] = 0.0
        return product
