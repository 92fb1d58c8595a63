# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for vCPUs."""

from collections.abc import Hashable
from typing import ClassVar

import numpy as np

from scheduler.decision.host_state import HostState
from scheduler.decision.host_table import HostTable, Mask
from scheduler.decision.outcome import Lack
from scheduler.decision.scaling import Weights
from scheduler.filters import BaseHostFilter
from scheduler.filters.overcommit import Held, lack, room, shortage
from scheduler.objects.request_spec import RequestSpec


class CoreFilter(BaseHostFilter):
    """Keep the hosts with enough free vCPUs, over-commit included.

    A host that reports no CPUs at all passes, without a limit: its count is taken for broken.
    """

    reads: ClassVar[tuple[str, ...]] = ("vcpus_total", "vcpus_used", "cpu_allocation_ratio")

    def question(self, spec: RequestSpec) -> Hashable | None:
        return spec.vcpus

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        total = hosts.vcpus_total
        passes, most = room(total, hosts.vcpus_used, self.ratios(hosts), spec.vcpus)
        # Nova sets it for hosts that are refused, too, unlike the limits of memory and disk.
        hosts.limits.vcpu = np.where(most > 0, most, np.nan)
        return passes | np.asarray(total == 0, np.bool_)

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        return shortage(self._held(host_state), spec_obj.vcpus, "vCPUs")

    def lack(self, host_state: HostState, spec_obj: RequestSpec) -> Lack | None:
        return lack(self._held(host_state), spec_obj.vcpus, "vcpus")

    def ratios(self, hosts: HostTable) -> Weights:
        """Return for each row by what its CPUs are multiplied, NaN where it is not known."""
        return hosts.cpu_allocation_ratio

    def _held(self, host_state: HostState) -> Held:
        ratio = self.ratios(host_state.table)[host_state.row]
        total, used = host_state.vcpus_total, host_state.vcpus_used
        return Held(total, used, ratio)
