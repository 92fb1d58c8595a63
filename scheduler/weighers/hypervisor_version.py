# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A weigher for the version of the hypervisor."""

from collections.abc import Hashable
from typing import Any

import numpy as np

from scheduler.decision.figures import figure
from scheduler.decision.host_table import HostTable
from scheduler.decision.scaling import Weights
from scheduler.objects.request_spec import RequestSpec
from scheduler.weighers import BaseHostWeigher


class HypervisorVersionWeigher(BaseHostWeigher):
    """Prefer the hosts whose hypervisor is newer; versions of one driver are comparable."""

    multiplier = 1.0
    aggregate_key = "hypervisor_version_weight_multiplier"
    options = (("multiplier", "filter_scheduler", "hypervisor_version_weight_multiplier"),)
    reads = ("hypervisor_version",)

    def question(self, spec: RequestSpec) -> Hashable | None:
        return ()

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Weights:
        return hosts.derived("hypervisor_version", "figure", _version, np.float64)


def _version(value: Any) -> float:
    return 0.0 if value is None else figure(value)
