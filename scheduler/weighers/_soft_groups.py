# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Server groups whose policy is a preference."""

from typing import ClassVar

import numpy as np

from scheduler.hosts.row_index import group_counts, group_with
from scheduler.weighers import BaseHostWeigher, HostTable, RequestSpec, Weights


class SoftGroupWeigher(BaseHostWeigher):
    policy: ClassVar[str]
    direction: ClassVar[float] = 1.0

    def applies(self, spec: RequestSpec) -> bool:
        return group_with(self.policy, spec) is not None

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Weights:
        group = group_with(self.policy, spec)
        if group is None:
            return np.zeros(hosts.size)
        return self.direction * group_counts(hosts, group).members.astype(np.float64)
