# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for hosts with certain instances."""

from scheduler.filters import HostState, RequestSpec
from scheduler.filters._instance_hints import HintFilter


class SameHostFilter(HintFilter):
    """Keep the hosts that have at least one of the instances in the hint same_host."""

    hint = "same_host"

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        return f"has no instance that the hint {self.hint} names: {self.named(spec_obj)}"
