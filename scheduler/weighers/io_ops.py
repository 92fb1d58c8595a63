# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A weigher for input and output."""

from collections.abc import Hashable

import numpy as np

from scheduler.decision.host_table import HostTable
from scheduler.decision.scaling import Weights
from scheduler.objects.request_spec import RequestSpec
from scheduler.weighers import BaseHostWeigher


class IoOpsWeigher(BaseHostWeigher):
    """Prefer the hosts with fewer instances that are busy with input and output."""

    minval = 0.0
    multiplier = -1.0
    aggregate_key = "io_ops_weight_multiplier"
    options = (("multiplier", "filter_scheduler", "io_ops_weight_multiplier"),)
    reads = ("num_io_ops",)

    def question(self, spec: RequestSpec) -> Hashable | None:
        return ()

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Weights:
        return hosts.num_io_ops.astype(np.float64)
