# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A simulation: arrivals are decided one after the other, and their instances come and go."""

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from inventory.objects.standby import NONE, Protection
from inventory.objects.standby_sums import NodeSums
from scheduler.decision.pipeline import Request
from scheduler.decision.types import Decision, Placement, PlannedStandby
from scheduler.hosts.flavor_mix import FlavorMix, Size, make_mix
from scheduler.hosts.host_state import Consumption, assumed_instance
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec
from scheduler.operators.fleet_usage import fleet_usage
from scheduler.operators.occupancy import StandbySums, add_instance, remove_instance, reported
from scheduler.operators.simulation.arrival import FOREVER, Arrival
from scheduler.operators.simulation.fleet import keep_alive
from scheduler.operators.simulation.requested_sizes import RequestedSizes
from scheduler.operators.simulation.result import Sample, SimulationResult

Decide = Callable[[HostTable, Request], Decision]
Progress = Callable[[int], object]
# How often a fleet is looked at in a run.
SAMPLES = 200
# Requests between two reports of progress.
_REPORTED = 100


@dataclass(slots=True)
class _Placed:
    """An instance on the host of a row, and what it takes there while it counts as being built."""

    row: int
    taken: Consumption
    is_building: bool


@dataclass(order=True, slots=True)
class _Event:
    """An instance leaves, or is built, at a time; of one time the earlier one comes first."""

    time: float
    number: int
    uuid: str = field(compare=False)
    placed: _Placed = field(compare=False)
    leaves: bool = field(compare=False)


class Simulation:
    """A fleet, which it changes, and what decides about it.

    For build_time seconds a new instance counts as one that is being built. requested follows what
    is asked for, None for a mix that stays. With a mode, failover, all instances that come are
    protected in it.
    """

    def __init__(
        self,
        hosts: HostTable,
        decide: Decide,
        build_time: float = 0.0,
        requested: RequestedSizes | None = None,
        failover: str | None = None,
    ) -> None:
        self.hosts = hosts
        self._decide = decide
        self._build_time = build_time
        self._requested = requested
        self._protection = _Protection(hosts, failover) if failover else None
        self._placed: dict[str, _Placed] = {}
        self._events: list[_Event] = []
        # Of all that is asked for in a run: what is stranded is measured by it.
        self._whole_mix: FlavorMix = ()
        self._numbers = count()
        keep_alive(hosts)

    def add_departures(self, leaves_at: dict[str, float]) -> None:
        """Make instances that are on the hosts leave at a time each, by their uuids."""
        for uuid, time in leaves_at.items():
            for row in self.hosts.instances.rows_of(uuid):
                instance = self.hosts.instances.on(row)[uuid]
                self._leave_at(time, uuid, _Placed(row, reported(instance), is_building=False))

    def run(
        self,
        arrivals: Sequence[Arrival],
        progress: Progress = lambda _: None,
        is_as_decided: Callable[[int, Decision], bool] | None = None,
    ) -> SimulationResult:
        """Return what becomes of the arrivals; progress is told how many there have been.

        is_as_decided says of the arrival with a number whether a scheduler decided so.
        """
        result = SimulationResult(as_decided=None if is_as_decided is None else 0)
        self._whole_mix = _mix_of(arrivals)
        every = max(1, len(arrivals) // SAMPLES)
        for number, arrival in enumerate(arrivals):
            self.advance(arrival.time)
            decision = self.place(arrival)
            result.requests += 1
            if decision.shortage is None:
                result.placed_instances += len(decision.placements)
            else:
                result.refused += 1
                result.refused_sizes[arrival.size] += len(arrival.request.instance_uuids)
            if is_as_decided is not None and is_as_decided(number, decision):
                assert result.as_decided is not None
                result.as_decided += 1
            if decision.shortage is not None and result.first_refusal is None:
                result.first_refusal = self._sample(arrival.time, result)
            if result.requests % every == 0 or result.requests == len(arrivals):
                result.samples.append(self._sample(arrival.time, result))
            if not result.requests % _REPORTED:
                progress(result.requests)
        progress(result.requests)
        return result

    def advance(self, time: float) -> None:
        while self._events and self._events[0].time <= time:
            event = heapq.heappop(self._events)
            if event.leaves:
                self._remove(event.uuid, event.placed)
            elif event.placed.is_building:
                event.placed.is_building = False
                row = event.placed.row
                self.hosts.set(row, "num_io_ops", self.hosts.get(row, "num_io_ops") - 1)
        if self._requested is not None and (mix := self._requested.mix_at(time)) is not None:
            self.hosts.set_flavor_mix(mix)

    def place(self, arrival: Arrival) -> Decision:
        """Return the decision about an arrival, after its instances have come."""
        if self._requested is not None:
            self._requested.add(arrival.size, len(arrival.request.instance_uuids))
        request = arrival.request
        if self._protection is not None:
            request = self._protection.protected(request)
        decision = self._decide(self.hosts.working_copy(), request)
        for each in decision.placements:
            if each.taken is not None:
                self._take(arrival, each, each.taken)
        return decision

    def _take(self, arrival: Arrival, placement: Placement, taken: Consumption) -> None:
        uuid, row = placement.instance_uuid, placement.chosen.row
        if uuid is None:
            # Nobody could say that it leaves.
            uuid = f"unnamed {next(self._numbers)}"
        # One that was here before is built anew, or moves.
        if (before := self._placed.pop(uuid, None)) is not None:
            self._remove(uuid, before)
        spec: RequestSpec = arrival.request.spec
        chosen = placement.chosen
        instance = assumed_instance(spec, uuid, chosen.host, chosen.nodename)
        placed = _Placed(row, taken, is_building=self._build_time > 0)
        add_instance(self.hosts, row, instance, taken, placed.is_building)
        self._placed[uuid] = placed
        if self._protection is not None:
            self._protection.hold(uuid, placement.standby)
        if placed.is_building:
            self._push(arrival.time + self._build_time, uuid, placed, leaves=False)
        leaves_at = arrival.leaves_at.get(uuid, FOREVER)
        if leaves_at < FOREVER:
            self._leave_at(leaves_at, uuid, placed)

    def _remove(self, uuid: str, placed: _Placed) -> None:
        """Remove an instance, unless it has gone from there already."""
        row = placed.row
        if uuid not in self.hosts.instances.on(row) or self._placed.get(uuid, placed) is not placed:
            return
        self._placed.pop(uuid, None)
        remove_instance(self.hosts, row, uuid, placed.taken, placed.is_building)
        if self._protection is not None:
            self._protection.end(uuid)
        placed.is_building = False

    def _leave_at(self, time: float, uuid: str, placed: _Placed) -> None:
        self._push(time, uuid, placed, leaves=True)

    def _push(self, time: float, uuid: str, placed: _Placed, leaves: bool) -> None:
        event = _Event(time, next(self._numbers), uuid, placed, leaves)
        heapq.heappush(self._events, event)

    def _sample(self, time: float, result: SimulationResult) -> Sample:
        usage = fleet_usage(self.hosts, self._whole_mix)
        return Sample(time, result.requests, result.refused, usage)


class _Protection:
    """Protects all instances that come, in a mode; what hosts hold already stays."""

    def __init__(self, hosts: HostTable, mode: str) -> None:
        self._hosts = hosts
        self._mode = mode
        self._sums = StandbySums(hosts)
        self._standbys: dict[str, PlannedStandby] = {}

    def protected(self, request: Request) -> Request:
        """Return a request whose instances get standbys, or none by the mode none."""
        if self._mode == NONE:
            return replace(request, protection=None)
        get = self._hosts.get
        sums = NodeSums({get(row, "node_id"): each for row, each in self._sums.of.items()})
        return replace(request, protection=Protection(self._mode, sums))

    def hold(self, uuid: str, planned: PlannedStandby | None) -> None:
        if planned is not None and planned.host is not None:
            self._standbys[uuid] = planned
            self._sums.change(planned.host.row, planned.domains, planned.size, 1)

    def end(self, uuid: str) -> None:
        planned = self._standbys.pop(uuid, None)
        if planned is not None and planned.host is not None:
            self._sums.change(planned.host.row, planned.domains, planned.size, -1)


def _mix_of(arrivals: Sequence[Arrival]) -> FlavorMix:
    sizes: Counter[Size] = Counter()
    for each in arrivals:
        sizes[each.size] += len(each.request.instance_uuids)
    return make_mix(sizes)
