# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Answer requests: with claims, without them, and as a rehearsal."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from inventory.claims.group_locks import read_members
from inventory.claims.places import FreePlaces
from inventory.engine import Database
from inventory.queries import promised
from scheduler.analysis.explain import Explanation, Extent, Rehearsal
from scheduler.cached_thread_pool import CachedThreadPool
from scheduler.claims.allocator import Allocator
from scheduler.claims.claimer import Claimer, TimedReads, forever, refusing_late
from scheduler.claims.placement_scope import scope_of
from scheduler.claims.protection import refuse_unprotected
from scheduler.decision.pipeline import Request
from scheduler.decision.types import Decision
from scheduler.drivers import BaseDriver
from scheduler.host_cache.cache import HostCache
from scheduler.hosts.snapshots import SnapshotLog
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec
from scheduler.objects.selection import Answer
from scheduler.request_trace import RequestLog, RequestObserver, RequestTrace, notifying
from scheduler.select_destinations.claimed_request import ClaimedRequest, Decider
from scheduler.select_destinations.request_builder import (
    build_answer,
    build_request,
    name_instances,
    with_members,
)
from scheduler.trust import Attestation
from scheduler.wire.arguments import SelectArguments
from scheduler.wire.context import Deadline, RequestContext

# How many hosts explain() reports on unless its caller says otherwise.
EXPLAINED_HOSTS = Extent(most=100)


class Destinations(Decider):
    """Answer requests with destinations. One per process; many threads may use it.

    Without a claimer the resources of a decision are consumed in the host cache only. With an
    allocator claims are allocated in Placement. With a snapshot log the observers see what was
    decided on.
    """

    def __init__(
        self,
        database: Database,
        host_cache: HostCache,
        driver: BaseDriver,
        max_attempts: int = 3,
        default_zone: str = "nova",
        attestation: Attestation | None = None,
        claimer: Claimer | None = None,
        allocator: Allocator | None = None,
        observers: Sequence[RequestObserver] = (),
        snapshot_log: SnapshotLog | None = None,
    ) -> None:
        super().__init__(host_cache, driver, default_zone, attestation, snapshot_log)
        self.claimer = claimer
        self.allocator = allocator
        self._database = database
        self._threads = CachedThreadPool()
        self._max_attempts = max_attempts
        self._observers = (RequestLog(), *observers)

    def select(
        self, arguments: SelectArguments, caller: RequestContext, deadline: Deadline | None = None
    ) -> Answer:
        """Return for each instance its destination and, if requested, alternates.

        Raises NoValidHost unless all instances have one; nothing is claimed then. Raises
        InvalidInput for a server group that does not exist and for a request older than a later
        attempt of its own, DatabaseUnavailable, PlacementUnavailable, and ServiceUnavailable after
        the deadline.
        """
        deadline = deadline or Deadline(time.monotonic())
        trace = RequestTrace(caller, arguments.instance_uuids, time.monotonic())
        trace.seconds["queue"] = deadline.waited()
        with notifying(trace, self._observers), refusing_late():
            reads = TimedReads(self._database, self._threads, deadline.left)
            # A reload may replace both at any time.
            claimer, allocator = self.claimer, self.allocator
            allocates = allocator is not None
            request = build_request(arguments, caller, reads, self._max_attempts, allocates)
            if claimer is None or request.spec.is_rebuild:
                refuse_unprotected(request.spec)
                return self._select_without_claims(request, trace)
            digest = arguments.digest
            request = name_instances(request, caller.request_id, digest)
            trace.instance_uuids = request.instance_uuids
            claimed = ClaimedRequest(self, claimer, request, digest, trace, deadline, reads)
            # Of instances that have no names there is nobody to allocate for.
            if allocator is not None and None not in arguments.instance_uuids:
                claimed.ask_placement(allocator)
            return claimed.select()

    def rehearse(
        self, arguments: SelectArguments, caller: RequestContext, extent: Extent = EXPLAINED_HOSTS
    ) -> tuple[Decision, Explanation]:
        """Return what select() would decide now and why, for the refused or the first instance.

        Nothing is claimed or locked meanwhile. Raises what rehearsal() does.
        """
        extent.pause()
        found = self.rehearsal(arguments, caller)
        extent.pause()
        return found.decision, found.explain(extent)

    def rehearsal(self, arguments: SelectArguments, caller: RequestContext) -> Rehearsal:
        """Return what select() would decide now, which can be explained later.

        Nothing is claimed. Raises InvalidInput, NoValidHost for resources that only Placement can
        allocate, DatabaseUnavailable and PlacementUnavailable.
        """
        claimer, allocator, driver = self.claimer, self.allocator, self.driver
        request = build_request(
            arguments, caller, self._database, self._max_attempts, allocator is not None
        )
        is_claimed = claimer is not None and not request.spec.is_rebuild
        if allocator is not None and is_claimed:
            scope = scope_of(request.spec, driver, self.host_cache)
            spec = allocator.begin(request.spec, forever, scope).restrict(request.spec)
            request = replace(request, spec=spec)
        if claimer is not None and is_claimed:
            uuids = [uuid for uuid in request.instance_uuids if uuid]
            members = read_members(self._database.read, [request.spec.instance_group])
            request = with_members(request, uuids, members)
            # Which projects have reservations is as old as the hosts.
            self.host_cache.refresh_if_older(driver.view_max_age)
            project = request.spec.project_id
            if project is not None and project in self.host_cache.reserving:
                free = self._database.read(lambda each: FreePlaces.read(each, [project]))
                request = replace(request, places=free.of(project))
            request = replace(request, choices=claimer.width.choices)
        with self.hosts(request.spec, driver) as hosts:
            copy = hosts.detached()
        copy.promises = self._database.read(promised.read)
        return Rehearsal(driver.decide(copy.working_copy(), request), copy, request, driver)

    @contextmanager
    def hosts(self, spec: RequestSpec, driver: BaseDriver) -> Iterator[HostTable]:
        """Yield the host table, locked, with the levels of trust that the request needs."""
        levels = self.trust(spec, driver)
        with self.host_cache.current(driver.view_max_age) as hosts:
            if levels is not None:
                self.host_cache.set_trust(levels)
            yield hosts

    def _select_without_claims(self, request: Request, trace: RequestTrace) -> Answer:
        trace.driver = driver = self.driver
        with ExitStack() as locked:
            with trace.stage("view"):
                hosts = locked.enter_context(self.hosts(request.spec, driver))
            with trace.stage("decide"):
                decision = self.decide(hosts.working_copy(), hosts, request, trace)
            self.host_cache.consume(decision, request.spec)
            answer = build_answer(decision, hosts, request.spec, self.default_zone)
        trace.finish(decision)
        return answer
