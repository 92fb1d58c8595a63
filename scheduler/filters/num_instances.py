# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for the number of instances."""

from collections.abc import Hashable
from typing import ClassVar

import numpy as np

from scheduler.decision.host_state import HostState
from scheduler.decision.host_table import HostTable, Mask
from scheduler.decision.outcome import Lack
from scheduler.decision.scaling import Weights
from scheduler.filters import BaseHostFilter
from scheduler.filters.overcommit import too_many
from scheduler.objects.request_spec import RequestSpec


class NumInstancesFilter(BaseHostFilter):
    """Keep the hosts with fewer instances than they may have, stopped ones included."""

    most = 50
    options = (("most", "filter_scheduler", "max_instances_per_host"),)
    reads: ClassVar[tuple[str, ...]] = ("num_instances",)

    def question(self, spec: RequestSpec) -> Hashable | None:
        return ()

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        return np.asarray(hosts.num_instances < self.allowed(hosts), np.bool_)

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        allowed = int(self.allowed(host_state.table)[host_state.row])
        return f"has {host_state.num_instances} instances, {allowed} allowed"

    def lack(self, host_state: HostState, spec_obj: RequestSpec) -> Lack | None:
        allowed = float(self.allowed(host_state.table)[host_state.row])
        return too_many(host_state.num_instances, allowed, "instances")

    def allowed(self, hosts: HostTable) -> Weights:
        """Return for each row how many it may have."""
        return np.full(hosts.size, self.most, np.float64)
