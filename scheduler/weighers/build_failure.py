# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A weigher for builds that failed."""

from collections.abc import Hashable

import numpy as np

from scheduler.decision.host_table import HostTable
from scheduler.decision.scaling import Weights
from scheduler.objects.request_spec import RequestSpec
from scheduler.weighers import BaseHostWeigher


class BuildFailureWeigher(BaseHostWeigher):
    """Prefer the hosts on which fewer builds have failed since the last one that succeeded."""

    multiplier = 1000000.0
    sign = -1.0
    aggregate_key = "build_failure_weight_multiplier"
    options = (("multiplier", "filter_scheduler", "build_failure_weight_multiplier"),)
    reads = ("failed_builds",)

    def question(self, spec: RequestSpec) -> Hashable | None:
        return ()

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Weights:
        return hosts.failed_builds.astype(np.float64)
