# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A weigher for the version of the hypervisor."""

from typing import Any

import numpy as np

from scheduler.hosts.metrics import to_float
from scheduler.weighers import BaseHostWeigher, HostTable, RequestSpec, Weights


class HypervisorVersionWeigher(BaseHostWeigher):
    """Prefer the hosts whose hypervisor is newer; versions of one driver are comparable."""

    aggregate_key = "hypervisor_version_weight_multiplier"
    options = (("multiplier", "filter_scheduler", "hypervisor_version_weight_multiplier"),)
    reads = ("hypervisor_version",)
    row_local = True

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Weights:
        return hosts.memo("hypervisor_version", "figure", _version, np.float64)


def _version(value: Any) -> float:
    return 0.0 if value is None else to_float(value)
