# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for input and output."""

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


class IoOpsFilter(BaseHostFilter):
    """Keep the hosts with fewer instances busy with input and output than they may have."""

    most = 8
    options = (("most", "filter_scheduler", "max_io_ops_per_host"),)
    reads: ClassVar[tuple[str, ...]] = ("num_io_ops",)

    def question(self, spec: RequestSpec) -> Hashable | None:
        return ()

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        return np.asarray(hosts.num_io_ops < self.allowed(hosts), np.bool_)

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        allowed = int(self.allowed(host_state.table)[host_state.row])
        return (
            f"{host_state.num_io_ops} instances are busy with input and output, {allowed} allowed"
        )

    def lack(self, host_state: HostState, spec_obj: RequestSpec) -> Lack | None:
        allowed = float(self.allowed(host_state.table)[host_state.row])
        return too_many(host_state.num_io_ops, allowed, "io_ops")

    def allowed(self, hosts: HostTable) -> Weights:
        """Return for each row how many it may have."""
        return np.full(hosts.size, self.most, np.float64)
