# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A driver whose CPUs count what a test says."""

from typing import Any

from compute_agent.virt.driver import CpuCounters, DriverError, NodeName
from compute_agent.virt.fake import FakeDriver

NODE = NodeName("alpha", "alpha")


def counted(
    user: int = 0, kernel: int = 0, idle: int = 0, iowait: int = 0, frequency_mhz: int = 2596
) -> CpuCounters:
    """Return counters of a CPU that did nothing yet, but for what is said."""
    return CpuCounters(user, kernel, idle, iowait, frequency_mhz)


class CountingDriver(FakeDriver):
    """Answers with the counters of each node, or raises the error that is there instead."""

    def __init__(self, conf: Any) -> None:
        super().__init__(conf)
        self.counters: dict[NodeName, CpuCounters | DriverError] = {}
        self.questions = 0

    def cpu_counters(self, node: NodeName) -> CpuCounters:
        self.questions += 1
        answer = self.counters[node]
        if isinstance(answer, DriverError):
            raise answer
        return answer
