# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Answer requests: with claims, without them, and as a rehearsal."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

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
from scheduler.select_destinations.loop import SchedulingLoop, decide, levels_of_trust
from scheduler.select_destinations.pending_request import PendingRequest, Settings
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


class Destinations:
    """Answer requests with destinations. One per process; many threads may use it."""

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
        self.host_cache = host_cache
        # A reload replaces them all at once.
        self.settings = Settings(driver, claimer, allocator, attestation, snapshot_log)
        self._database = database
        self._threads = CachedThreadPool()
        self.loop = SchedulingLoop(database, host_cache, default_zone, self._threads.run)
        self._max_attempts = max_attempts
        self._default_zone = default_zone
        self._observers = (RequestLog(), *observers)

    @property
    def driver(self) -> BaseDriver:
        """The driver in use."""
        return self.settings.driver

    @property
    def claimer(self) -> Claimer | None:
        """What claims, None where nothing is claimed."""
        return self.settings.claimer

    @property
    def allocator(self) -> Allocator | None:
        """What allocates in Placement, None where nothing does."""
        return self.settings.allocator

    def change(self, **settings: Any) -> None:
        """Replace some of the settings for the requests that come from now on."""
        self.settings = replace(self.settings, **settings)

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
        settings = self.settings
        trace = _begin_trace(arguments, caller, deadline, settings)
        with notifying(trace, self._observers), refusing_late():
            if settings.claimer is None or arguments.spec.is_rebuild:
                reads = TimedReads(self._database, self._threads, deadline.left)
                request = self._request(arguments, caller, reads, settings)
                refuse_unprotected(request.spec)
                return self._select_without_claims(request, trace, settings)
            return self.loop.answer(
                self._pending(arguments, deadline, trace, settings, settings.claimer)
            )

    def prepare_at_once(
        self, arguments: SelectArguments, caller: RequestContext, deadline: Deadline
    ) -> PendingRequest | None:
        """Return a request that can join the loop at once, None for one that may have to wait.

        Raises what select() does. outcome() is to be asked once the future of the request is done.
        """
        settings, spec = self.settings, arguments.spec
        claimer = settings.claimer
        if claimer is None or spec.is_rebuild:
            return None
        if self.loop.may_have_to_wait(spec, settings, claimer):
            return None
        trace = _begin_trace(arguments, caller, deadline, settings)
        return self._pending(arguments, deadline, trace, settings, claimer)

    def outcome(self, pending: PendingRequest) -> Answer:
        """Return the answer to a request whose future is done; raises what select() does."""
        with notifying(pending.trace, self._observers), refusing_late():
            return pending.future.result()

    def _pending(
        self,
        arguments: SelectArguments,
        deadline: Deadline,
        trace: RequestTrace,
        settings: Settings,
        claimer: Claimer,
    ) -> PendingRequest:
        """Return what is to be claimed for a request."""
        reads = TimedReads(self._database, self._threads, deadline.left)
        request = self._request(arguments, trace.caller, reads, settings)
        request = name_instances(request, trace.caller.request_id, arguments.digest)
        trace.instance_uuids = request.instance_uuids
        # Of instances that have no names there is nobody to allocate for.
        allocator = None if None in arguments.instance_uuids else settings.allocator
        return PendingRequest(
            request, arguments.digest, deadline, trace, settings, claimer, reads, allocator
        )

    def _request(
        self,
        arguments: SelectArguments,
        caller: RequestContext,
        reads: Database | TimedReads,
        settings: Settings,
    ) -> Request:
        allocates = settings.allocator is not None
        return build_request(arguments, caller, reads, self._max_attempts, allocates)

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
        settings = self.settings
        claimer, allocator, driver = settings.claimer, settings.allocator, settings.driver
        request = self._request(arguments, caller, self._database, settings)
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
        with self.hosts(request.spec, settings) as hosts:
            copy = hosts.detached()
        copy.promises = self._database.read(promised.read)
        return Rehearsal(driver.decide(copy.working_copy(), request), copy, request, driver)

    @contextmanager
    def hosts(self, spec: RequestSpec, settings: Settings) -> Iterator[HostTable]:
        """Yield the host table, locked, with the levels of trust that the request needs."""
        levels = levels_of_trust(spec, settings, self.host_cache)
        with self.host_cache.current(settings.driver.view_max_age) as hosts:
            if levels is not None:
                self.host_cache.set_trust(levels)
            yield hosts

    def _select_without_claims(
        self, request: Request, trace: RequestTrace, settings: Settings
    ) -> Answer:
        with ExitStack() as locked:
            with trace.stage("view"):
                hosts = locked.enter_context(self.hosts(request.spec, settings))
            with trace.stage("decide"):
                decision, _ = decide(settings, self.host_cache, hosts, request, trace)
            self.host_cache.consume(decision, request.spec)
            answer = build_answer(decision, hosts, request.spec, self._default_zone)
        trace.finish(decision)
        return answer


def _begin_trace(
    arguments: SelectArguments, caller: RequestContext, deadline: Deadline, settings: Settings
) -> RequestTrace:
    trace = RequestTrace(caller, arguments.instance_uuids, time.monotonic())
    trace.driver, trace.seconds["queue"] = settings.driver, deadline.waited()
    return trace
