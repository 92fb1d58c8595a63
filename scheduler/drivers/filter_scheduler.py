# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The default driver: filter, weigh, pick, consume; and its variants by other names."""

from scheduler.decision import pipeline, standbys
from scheduler.decision.pipeline import Request
from scheduler.decision.types import Decision
from scheduler.drivers import BaseDriver, placed
from scheduler.hosts.table import HostTable


class FilterScheduler(BaseDriver):
    """Decides with the configured filters and weighers."""

    def decide(self, hosts: HostTable, request: Request) -> Decision:
        if request.protection is not None:
            return standbys.decide(hosts, request, self.plan, request.protection)
        return pipeline.decide(hosts, request, self.plan)


class CachingScheduler(FilterScheduler):
    """Decides as FilterScheduler, with an older host cache."""

    view_max_age: float | None = 60
    options = (("view_max_age", "scheduler", "driver_task_period"),)


class FakeScheduler(BaseDriver):
    """Decides nothing: the answer to any request is empty, which is no failure."""

    def decide(self, hosts: HostTable, request: Request) -> Decision:
        return placed(hosts, request, ())
