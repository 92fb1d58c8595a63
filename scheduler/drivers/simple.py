# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The driver of Essex that counts vCPUs. Source: behaviour reference 4.3."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from scheduler.decision import pipeline
from scheduler.decision.pipeline import Plan, Request, filter_hosts
from scheduler.decision.prefilter import no_such_host, prefilter
from scheduler.decision.types import Decision, Step
from scheduler.drivers import BaseDriver, placed, placement, refused, step
from scheduler.filters.availability_zone import AvailabilityZoneFilter
from scheduler.filters.compute import ComputeFilter
from scheduler.filters.isolated_hosts import IsolatedHostsFilter
from scheduler.hosts.columns import Mask
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec
from scheduler.request_filters import PlacementOnly

# Tenants read these.
NONE_UP = "No compute service that could take the instance is up."
NOT_THERE = "The requested compute service is not up or does not exist."
ALL_FULL = "All compute services have too many vCPUs in use."


class SimpleScheduler(BaseDriver):
    """Decides for the host with the fewest vCPUs in use, as long as they are not too many.

    Memory and disk have no bound. A host may be named by an administrator in the zone, as
    zone:host, or by forcing it; it need only be alive.
    """

    service_down_time = ComputeFilter.service_down_time
    default_zone = AvailabilityZoneFilter.default_zone
    isolated_images: Sequence[str] = ()
    isolated_hosts: Sequence[str] = ()
    default_schedule_zone: str | None = None
    max_cores = 16
    skip_isolated_core_check = True
    options = (
        *ComputeFilter.options,
        *AvailabilityZoneFilter.options,
        ("isolated_images", "filter_scheduler", "isolated_images"),
        ("isolated_hosts", "filter_scheduler", "isolated_hosts"),
        ("default_schedule_zone", "scheduler", "default_schedule_zone"),
        ("max_cores", "scheduler", "max_cores"),
        ("skip_isolated_core_check", "scheduler", "skip_isolated_core_check"),
    )

    def __init__(self, plan: Plan, **settings: Any) -> None:
        super().__init__(plan, **settings)
        self._compute = ComputeFilter(service_down_time=self.service_down_time)
        # In place of the configured filters and weighers, also for explanations.
        self.plan = Plan(
            (
                self._compute,
                AvailabilityZoneFilter(default_zone=self.default_zone),
                IsolatedHostsFilter(
                    isolated_images=self.isolated_images, isolated_hosts=self.isolated_hosts
                ),
            ),
            request_filters=(PlacementOnly(),),
        )

    def decide(self, hosts: HostTable, request: Request) -> Decision:
        if request.spec.is_rebuild:
            # The instance stays where it is and consumes nothing more.
            return pipeline.decide(hosts, request, self.plan)
        if reason := pipeline.refusal(request.spec, self.plan):
            return refused(hosts, request, (), reason)
        spec = self._addressed(request)
        candidates, steps = self._left(hosts, spec)
        if not candidates.any():
            reason = NOT_THERE if spec.has_forced_target else no_such_host(hosts, spec) or NONE_UP
            return refused(hosts, request, steps, reason)
        placements, bounded = [], self._is_bounded(spec)
        for index, uuid in enumerate(request.instance_uuids):
            row, used = _least_used(hosts, candidates)
            if bounded and used + spec.vcpus > self.max_cores:
                full = Step("max_cores", int(np.count_nonzero(candidates)), 0)
                return refused(hosts, request, (*steps, full), ALL_FULL, index)
            # Other schedulers may fill the host meanwhile: the claim enforces the bound as well.
            room = float(self.max_cores - used + hosts.vcpus_used[row])
            limits = {"vcpu": room} if bounded else {}
            one = spec.for_instance(uuid)
            placements.append(placement(hosts, row, one, steps, weight=float(-used), limits=limits))
        return placed(hosts, request, placements)

    def _addressed(self, request: Request) -> RequestSpec:
        """Return the request with the host that its zone may name."""
        spec = request.spec.for_instance(request.instance_uuids[0])
        zone, _, host = (spec.availability_zone or "").partition(":")
        spec.availability_zone = zone or self.default_schedule_zone
        if host and request.by_admin and not spec.has_forced_target:
            spec.force_hosts = [host]
        return spec

    def _left(self, hosts: HostTable, spec: RequestSpec) -> tuple[Mask, list[Step]]:
        """Return the remaining hosts, and the steps."""
        candidates, steps = prefilter(hosts, spec)
        if spec.has_forced_target:
            alive = candidates & self._compute.alive(hosts)
            return alive, [*steps, step("alive", candidates, alive)]
        left, more = filter_hosts(hosts, spec, self.plan.filters, candidates)
        return left, [*steps, *more]

    def _is_bounded(self, spec: RequestSpec) -> bool:
        """Return whether max_cores counts for a request."""
        if spec.has_forced_target:
            return False
        isolated = spec.image is not None and spec.image.id in self.isolated_images
        return not (isolated and self.skip_isolated_core_check)


def _least_used(hosts: HostTable, candidates: Mask) -> tuple[int, int]:
    """Return a row of the host with the fewest vCPUs in use, and how many it has in use.

    The vCPUs of all nodes of a host are summed; its least used node is chosen. The first of equal
    ones counts.
    """
    codes, rows = hosts.codes("host"), np.flatnonzero(candidates)
    used = np.bincount(codes, hosts.vcpus_used)[codes[rows]]
    first = int(np.argmin(used))
    nodes = rows[codes[rows] == codes[rows[first]]]
    return int(nodes[np.argmin(hosts.vcpus_used[nodes])]), int(used[first])
