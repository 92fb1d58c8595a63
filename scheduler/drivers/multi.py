# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The driver of Essex and Folsom that delegates requests by what they ask for."""

from typing import Any

from scheduler.decision.pipeline import Plan, Request
from scheduler.decision.types import Decision
from scheduler.drivers import BaseDriver
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec


class MultiScheduler(BaseDriver):
    """Decides by one of three drivers: for instances, for volumes and for anything else.

    The host cache is as fresh as the strictest of them requires.
    """

    compute: BaseDriver
    volume: BaseDriver
    default: BaseDriver
    parts = (
        ("compute", "scheduler", "compute_scheduler_driver"),
        ("volume", "scheduler", "volume_scheduler_driver"),
        ("default", "scheduler", "default_scheduler_driver"),
    )

    def __init__(self, plan: Plan, **settings: Any) -> None:
        super().__init__(plan, **settings)
        ages = [part.view_max_age for part in (self.compute, self.volume, self.default)]
        known = [age for age in ages if age is not None]
        self.view_max_age = min(known) if len(known) == len(ages) else None

    def decide(self, hosts: HostTable, request: Request) -> Decision:
        part: BaseDriver = getattr(self, kind_of(request.spec))
        return part.decide(hosts, request)


def kind_of(spec: RequestSpec) -> str:
    """Return the part for a request: compute, volume (disk and nothing else) or default."""
    if spec.flavor.vcpus or spec.flavor.memory_mb:
        return "compute"
    return "volume" if spec.root_gb or spec.ephemeral_gb or spec.swap else "default"
