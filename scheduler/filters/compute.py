# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for hosts whose compute service cannot take instances."""

import numpy as np

from scheduler.filters import BaseHostFilter, HostState, HostTable, Mask, RequestSpec


class ComputeFilter(BaseHostFilter):
    """Keep the hosts whose compute service is enabled and alive.

    Alive means: not forced down, and seen within service_down_time seconds. A heartbeat further
    than that in the future does not count, since its clock cannot be trusted.
    """

    run_filter_once_per_request = True
    service_down_time = 60
    options = (("service_down_time", "DEFAULT", "service_down_time"),)

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        return self.alive(hosts) & ~np.asarray(hosts.service_disabled, np.bool_)

    def alive(self, hosts: HostTable) -> Mask:
        """Return for each row whether the service is alive, enabled or not."""
        seen = np.abs(hosts.heartbeat_age) <= self.service_down_time
        return np.asarray(seen & ~hosts.forced_down, np.bool_)

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        if host_state.service_disabled:
            return f"compute service disabled: {host_state.disabled_reason or 'no reason given'}"
        if host_state.forced_down:
            return "compute service forced down"
        seen, age = "never", host_state.heartbeat_age
        if age is not None and np.isfinite(age):
            # Rounded up, so that an age beyond the limit never looks like one within it.
            seen = f"{np.ceil(abs(age)):.0f} s {'ago' if age >= 0 else 'in the future'}"
        return f"compute service last seen {seen}, {self.service_down_time} s allowed"
