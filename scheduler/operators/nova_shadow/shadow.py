# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Decide each copied request at once, and compare it when the answer of nova-scheduler is known.

Decisions and answers have a thread each: asking Placement delays no decision, which has to see the
hosts as nova-scheduler did.
"""

from collections import defaultdict
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from time import monotonic

from conf.daemon.periodic_thread import PeriodicThread
from inventory.database_errors import DatabaseUnavailable
from inventory.nova.placement import PlacementClient, Provider
from inventory.nova.placement_errors import PlacementError
from scheduler.analysis.explain import Extent, Rehearsal
from scheduler.operators.nova_shadow.comparison import Comparison, compare, unknown
from scheduler.operators.nova_shadow.request_copies import Notified, RequestCopies, RequestCopy
from scheduler.select_destinations.destinations import Destinations
from scheduler.wire.arguments import decode_select_arguments
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import SchedulerFailure

# Seconds between two looks for new messages, and between two for an allocation: the latter grow
# with the time that was waited in vain, up to a tenth of it.
POLL = 0.1
# Requests whose answer is awaited, each with a copy of the host table: more are not compared.
MAX_PENDING = 200
# Seconds within which the agent that reads Nova's databases has reported a placement.
MIRRORED = 3.0
CLAIMED_NOTHING = "a rebuild stays on its host: nova-scheduler writes no allocation to compare with"


class Outcomes:
    """Finds in Placement what nova-scheduler chose: it writes the allocation before it answers.

    Raises what PlacementClient does.
    """

    def __init__(self, client: PlacementClient) -> None:
        self._client = client
        self._providers: dict[str, Provider] = {}

    def nodes(self, instance_uuid: str) -> Collection[str]:
        """Return the names of the compute nodes where an instance has an allocation."""
        uuids = self._client.allocations_for(instance_uuid).resources.keys()
        if not uuids <= self._providers.keys():
            self._providers = {each.uuid: each for each in self._client.providers()}
        # An allocation may be at a child, such as a physical GPU; shared storage is its own root.
        roots = {self._providers[each].root_uuid for each in uuids if each in self._providers}
        return {self._providers[each].name for each in roots if each in self._providers}


@dataclass(slots=True)
class Shadowed:
    """One request: our decision, how long both took in seconds, and how the two compare.

    recent is how many requests came so shortly before that they may not be mirrored yet.
    nova_seconds is measured by nova-scheduler's own notifications if exact, else it is until its
    allocation was seen.
    """

    request_id: str
    instance_uuid: str | None
    instances: int
    received: float
    seconds: float | None = None
    nova_seconds: float | None = None
    exact: bool = False
    recent: int = 0
    comparison: Comparison | None = None
    rehearsal: Rehearsal | None = None
    next_look: float = 0.0


@dataclass(slots=True)
class Shadow:
    """All requests of a run. wait is after how many seconds without an allocation Nova refused."""

    destinations: Destinations
    outcomes: Outcomes
    wait: float
    show: Callable[[int], None] = lambda _: None
    requests: list[Shadowed] = field(default_factory=list)
    _pending: list[Shadowed] = field(default_factory=list)
    _notified: dict[str, list[Notified]] = field(default_factory=lambda: defaultdict(list))
    _lock: Lock = field(default_factory=Lock)

    def run(
        self, copies: RequestCopies, number: int | None = None, until: float | None = None
    ) -> None:
        """Compare a number of requests, or those until a point in time; Ctrl-C ends it earlier.

        Raises what the source of copies does; what was compared until then is kept.
        """
        seeking = PeriodicThread("outcomes", self._seek, POLL / 2)
        seeking.start()
        try:
            with suppress(KeyboardInterrupt):
                self._receive(copies, number, until)
        finally:
            seeking.stop()
            self._finish()

    def _receive(self, copies: RequestCopies, number: int | None, until: float | None) -> None:
        while True:
            is_full = number is not None and len(self.requests) >= number
            is_over = is_full or (until is not None and monotonic() >= until)
            if is_over and not self._pending:
                return
            found = copies.next(POLL)
            if isinstance(found, Notified):
                self._notified[found.request_id].append(found)
            elif found is not None and not is_over:
                self._decide(found)
                self.show(len(self.requests))

    def _decide(self, copy: RequestCopy) -> None:
        caller = RequestContext.from_dict(copy.context)
        one = Shadowed(caller.request_id or "", None, 0, copy.received)
        earliest = one.received - MIRRORED
        one.recent = sum(each.received >= earliest for each in self.requests[-MAX_PENDING:])
        self.requests.append(one)
        try:
            arguments = decode_select_arguments(copy.arguments)
            arguments.spec.user_id = arguments.spec.user_id or caller.user_id
            one.instances = len(arguments.instance_uuids)
            one.instance_uuid = arguments.instance_uuids[0]
            began = monotonic()
            found = self.destinations.rehearsal(arguments, caller)
            one.seconds = monotonic() - began
        except SchedulerFailure as error:
            one.comparison = unknown(f"not decided here: {error.reason}")
            return
        except DatabaseUnavailable as error:
            one.comparison = unknown(f"not decided here: the database {error.brief}")
            return
        one.instance_uuid = found.request.instance_uuids[found.index]
        if one.instance_uuid is None:
            one.comparison = unknown("the caller named no instance, so its allocation is not known")
        elif found.request.spec.is_rebuild:
            one.comparison = unknown(CLAIMED_NOTHING)
        elif len(self._pending) >= MAX_PENDING:
            one.comparison = unknown(f"{MAX_PENDING} requests that came earlier had no answer yet")
        else:
            one.rehearsal = found
            with self._lock:
                self._pending.append(one)

    def _seek(self) -> None:
        now = monotonic()
        with self._lock:
            due = [each for each in self._pending if each.next_look <= now]
        for each in due:
            self._look(each)
        with self._lock:
            self._pending = [each for each in self._pending if each.comparison is None]

    def _look(self, one: Shadowed) -> None:
        assert one.rehearsal is not None
        assert one.instance_uuid is not None
        try:
            nodes = {*self.outcomes.nodes(one.instance_uuid)} - _left(one.rehearsal)
        except PlacementError as error:
            one.comparison = unknown(error.text)
            return
        waited = monotonic() - one.received
        if nodes:
            one.nova_seconds = waited
            one.comparison = _compared(one.rehearsal, nodes)
        elif waited >= self.wait:
            one.comparison = compare(one.rehearsal.explain(Extent(most=1)), None)
        else:
            one.next_look = monotonic() + max(POLL, waited / 10)
            return
        # It has a copy of the host table.
        one.rehearsal = None

    def _finish(self) -> None:
        """Say of what is still open that it is."""
        for each in self.requests:
            each.rehearsal = None
            if each.comparison is None:
                each.comparison = unknown("the command ended before Nova's answer was known")
            self._time(each)

    def _time(self, one: Shadowed) -> None:
        """Take the time of a request from its notifications if there is one of each kind.

        A request that is repeated has the same id, and which is which is not told.
        """
        found = self._notified.get(one.request_id, [])
        times = {each.phase: each.timestamp for each in found}
        if len(found) == len(times) == 2:
            one.nova_seconds, one.exact = times["end"] - times["start"], True


def _left(rehearsal: Rehearsal) -> set[str]:
    """Return the nodes to leave, where an instance that is evacuated keeps its allocation."""
    hosts = rehearsal.hosts
    ignored = rehearsal.request.spec.ignore_hosts or ()
    return {hosts.get(row, "nodename") for name in ignored for row in hosts.rows_of_host(name)}


def _compared(rehearsal: Rehearsal, nodes: set[str]) -> Comparison:
    if len(nodes) > 1:
        return unknown(f"it has allocations on several nodes: {', '.join(sorted(nodes))}")
    (node,) = nodes
    return compare(rehearsal.explain(Extent(only=[node])), node)
