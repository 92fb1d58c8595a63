# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The cost function by which Essex and Folsom spread or filled hosts.

Source: behaviour reference 2.5.
"""

from collections.abc import Hashable

import numpy as np

from scheduler.decision.host_table import HostTable
from scheduler.decision.scaling import Weights
from scheduler.objects.request_spec import RequestSpec
from scheduler.weighers import BaseHostWeigher


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

    def question(self, spec: RequestSpec) -> Hashable | None:
        return ()

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Weights:
        # The lowest cost wins there, the highest weight here.
        return -hosts.free_ram_mb.astype(np.float64)
