# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The cost function of Essex and Folsom that is the same for all hosts."""

import numpy as np

from scheduler.weighers import BaseHostWeigher, HostTable, RequestSpec, Weights


class NoopCostWeigher(BaseHostWeigher):
    """Prefer no host: the cost is 1 for each, times the multiplier."""

    name = "noop_cost_fn"
    scales = False
    in_all = False
    options = (("multiplier", "filter_scheduler", "noop_cost_fn_weight"),)

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Weights:
        return np.full(hosts.size, -1.0)
