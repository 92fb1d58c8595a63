# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The moment at which one instance of a request was decided about, had by deciding once more."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from scheduler.decision.filtering import asked_for
from scheduler.decision.group_members import counted
from scheduler.decision.host_state import HostState
from scheduler.decision.host_table import HostTable
from scheduler.decision.obstacles import Obstacle, by_name, of_filters
from scheduler.decision.outcome import Candidate, Decision, Placement, Step
from scheduler.decision.pipeline import Plan, Request
from scheduler.objects.request_spec import RequestSpec


class Driver(Protocol):
    """What makes decisions, and with which filters and weighers."""

    plan: Plan

    def decide(self, hosts: HostTable, request: Request) -> Decision:
        """Return the decision for a request. hosts is a working copy that may be consumed."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The table as earlier instances of the request had left it, and what the instance asked for.

    found is where it went; where it went nowhere steps are those that led there.
    """

    index: int
    hosts: HostTable
    spec: RequestSpec
    steps: tuple[Step, ...]
    found: Placement | None

    @property
    def chosen(self) -> Candidate | None:
        return self.found.chosen if self.found else None


def moment(
    hosts: HostTable,
    request: Request,
    driver: Driver,
    index: int,
    pause: Callable[[], None] = lambda: None,
) -> Moment:
    """Return the moment of the instance at this place; hosts stays as it is.

    pause is called between two decisions. Raises ValueError where nothing was decided about such an
    instance.
    """
    uuids = request.instance_uuids

    def decided(count: int) -> Decision:
        pause()
        first = replace(request, instance_uuids=uuids[:count], alternates=0)
        return driver.decide(hosts.working_copy(), first)

    if not 0 <= index < len(uuids):
        raise ValueError(f"the request has {len(uuids)} instances, there is no number {index}")
    decision = decided(len(uuids))
    shortage = decision.shortage
    if shortage and index > shortage.index:
        raise ValueError(f"the request was refused for instance {shortage.index}, before {index}")
    if shortage and index < shortage.index:
        decision, shortage = decided(index + 1), None
    earlier = decided(index).placements if shortage and index else decision.placements[:index]
    spec = request.spec.for_instance(uuids[index], (each.chosen.host for each in earlier))
    # A driver may decide nothing at all.
    found = None if shortage or not decision.placements else decision.placements[index]
    told = shortage or found
    now = _after(hosts, request.spec, earlier)
    return Moment(index, now, spec, told.steps if told else (), found)


def obstacles(hosts: HostTable, at: Moment, request: Request, plan: Plan) -> list[Obstacle]:
    """Return all that was in the way of the instance.

    What is asked once for a request was asked before any of its instances had taken anything.
    """
    first = _after(hosts, request.spec, ())
    now = asked_for(plan.filters, request.spec, at.index)
    once = [each for each in asked_for(plan.filters, request.spec, 0) if each not in now]
    found = by_name(first, request.spec)
    if not request.spec.is_rebuild:
        found += of_filters(first, request.spec, plan.request_filters)
    found += of_filters(first, request.spec.for_instance(request.instance_uuids[0]), once)
    found += of_filters(at.hosts, at.spec, now)
    if at.chosen is not None:
        # A driver may have rules of its own, by which some of this does not count.
        for each in found:
            each.refused[at.chosen.row] = False
    return found


def _after(hosts: HostTable, spec: RequestSpec, earlier: Iterable[Placement]) -> HostTable:
    """Return a working copy from which these instances have taken what they need."""
    now = hosts.working_copy()
    if spec.instance_group is not None:
        now.membership = counted(hosts, spec.instance_group)
    for each in earlier:
        if each.taken is not None:
            one = spec.for_instance(each.instance_uuid)
            HostState.of(now, each.chosen.row).consume_from_request(one)
    return now
