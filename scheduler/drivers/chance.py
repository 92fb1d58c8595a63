# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The driver of Essex to Queens that draws hosts at random. Source: behaviour reference 4.2."""

from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np

from scheduler.decision import pipeline
from scheduler.decision.pipeline import Plan, Request
from scheduler.decision.types import Decision
from scheduler.drivers import BaseDriver, placed, placement, refused, step
from scheduler.filters.compute import ComputeFilter
from scheduler.hosts.columns import Mask
from scheduler.hosts.table import HostTable
from scheduler.request_filters import PlacementOnly

# Tenants read these.
NONE_UP = "No compute service is up at the moment."
ALL_IGNORED = "No compute service is up besides the hosts that are to be avoided."


class ChanceScheduler(BaseDriver):
    """Decides by chance among the hosts whose compute service is enabled and alive.

    Of the request only the hosts to ignore count, letter case respected. Several instances go to
    as many hosts where there are so many; otherwise each goes to any.
    """

    service_down_time = ComputeFilter.service_down_time
    options = ComputeFilter.options

    def __init__(self, plan: Plan, **settings: Any) -> None:
        super().__init__(plan, **settings)
        # In place of the configured filters and weighers, also for explanations.
        self.plan = Plan(
            (ComputeFilter(service_down_time=self.service_down_time),),
            request_filters=(PlacementOnly(),),
        )

    def decide(self, hosts: HostTable, request: Request) -> Decision:
        if request.spec.is_rebuild:
            # The instance stays where it is.
            return pipeline.decide(hosts, request, self.plan)
        if reason := pipeline.refusal(request.spec, self.plan):
            return refused(hosts, request, (), reason)
        served = hosts.served
        up = served & self.plan.filters[0].mask(hosts, request.spec)
        left = up.copy()
        for name in request.spec.ignore_hosts or ():
            left[list(hosts.rows_of_host(name))] = False
        steps = (step(self.plan.filters[0].name, served, up), step("ignore_hosts", up, left))
        if not left.any():
            return refused(hosts, request, steps, ALL_IGNORED if up.any() else NONE_UP)
        rows = _drawn(hosts, left, len(request.instance_uuids), Random(request.seed))
        return placed(
            hosts,
            request,
            [
                placement(hosts, row, request.spec.for_instance(uuid), steps)
                for row, uuid in zip(rows, request.instance_uuids, strict=True)
            ],
        )


def _drawn(hosts: HostTable, candidates: Mask, count: int, chance: Random) -> Iterator[int]:
    """Yield drawn rows: of a host, with the same probability for each, and then of its nodes."""
    codes = np.flatnonzero(np.bincount(hosts.codes("host")[candidates])).tolist()
    enough = count <= len(codes)
    names = hosts.distinct("host")
    for code in chance.sample(codes, count) if enough else chance.choices(codes, k=count):
        yield chance.choice([row for row in hosts.rows_of_host(names[code]) if candidates[row]])
