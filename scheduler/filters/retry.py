# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for instances that failed to build before."""

import numpy as np

from scheduler.filters import BaseHostFilter, HostState, HostTable, Mask, RequestSpec


class RetryFilter(BaseHostFilter):
    """Keep the hosts on which this request has not been tried yet."""

    def applies(self, spec: RequestSpec) -> bool:
        return spec.retry is not None and bool(spec.retry.hosts)

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        mask = np.ones(hosts.size, np.bool_)
        for tried in spec.retry.hosts if spec.retry else ():
            row = hosts.row_of(tried.host or "", tried.hypervisor_hostname or "")
            if row is not None:
                mask[row] = False
        return mask

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        attempts = spec_obj.retry.num_attempts if spec_obj.retry else 0
        return f"was tried before, this is attempt {attempts}"
