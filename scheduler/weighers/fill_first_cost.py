# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The cost function by which Essex and Folsom spread or filled hosts."""

import numpy as np

from scheduler.weighers import BaseHostWeigher, HostTable, RequestSpec, Weights


class FillFirstCostWeigher(BaseHostWeigher):
    """Prefer the hosts of least cost: of free memory in MB, times the multiplier.

    A negative multiplier spreads instances over the hosts, a positive one fills one after another.
    """

    name = "compute_fill_first_cost_fn"
    multiplier = -1.0
    scales = False
    in_all = False
    options = (("multiplier", "filter_scheduler", "compute_fill_first_cost_fn_weight"),)
    reads = ("free_ram_mb",)
    row_local = True

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Weights:
        return -hosts.free_ram_mb.astype(np.float64)
