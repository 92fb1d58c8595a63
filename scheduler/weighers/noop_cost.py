# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The cost function of Essex and Folsom that is the same for all hosts.

Source: behaviour reference 2.5.
"""

import numpy as np

from scheduler.decision.host_table import HostTable
from scheduler.decision.scaling import Weights
from scheduler.objects.request_spec import RequestSpec
from scheduler.weighers import BaseHostWeigher


class NoopCostWeigher(BaseHostWeigher):
    """Prefer the hosts of least cost, which is 1 for each, times the multiplier: none of them."""

    name = "noop_cost_fn"
    multiplier = 1.0
    scales = False
    in_all = False
    options = (("multiplier", "filter_scheduler", "noop_cost_fn_weight"),)

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Weights:
        return np.full(hosts.size, -1.0)
