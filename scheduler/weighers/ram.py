# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A weigher for free memory."""

from collections.abc import Hashable

import numpy as np

from scheduler.decision.host_table import HostTable
from scheduler.decision.scaling import Weights
from scheduler.objects.request_spec import RequestSpec
from scheduler.weighers import BaseHostWeigher


class RAMWeigher(BaseHostWeigher):
    """Prefer the hosts with more free memory, in MB."""

    minval = 0.0
    multiplier = 1.0
    aggregate_key = "ram_weight_multiplier"
    options = (("multiplier", "filter_scheduler", "ram_weight_multiplier"),)
    reads = ("free_ram_mb",)

    def question(self, spec: RequestSpec) -> Hashable | None:
        return ()

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Weights:
        return hosts.free_ram_mb.astype(np.float64)
