# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The default driver: filter, weigh, pick, consume."""

from scheduler.decision import pipeline
from scheduler.decision.host_table import HostTable
from scheduler.decision.outcome import Decision
from scheduler.decision.pipeline import Request
from scheduler.drivers import BaseDriver


class FilterScheduler(BaseDriver):
    """Decides with the configured filters and weighers."""

    def decide(self, hosts: HostTable, request: Request) -> Decision:
        return pipeline.decide(hosts, request, self.plan)
