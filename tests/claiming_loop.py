# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The scheduling loop without decisions: requests come as what is to be claimed."""

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from inventory.claims.types import ClaimRequest, ClaimResult
from inventory.engine import Database
from inventory.objects.instance_group import InstanceGroup
from scheduler.claims.claim_request import ClaimSettings
from scheduler.claims.claimer import Claimer, TimedReads
from scheduler.decision.pipeline import Plan, Request
from scheduler.drivers.filter_scheduler import FilterScheduler
from scheduler.host_cache.cache import HostCache
from scheduler.request_trace import RequestTrace
from scheduler.select_destinations import loop
from scheduler.select_destinations.loop import NewestClaims, SchedulingLoop
from scheduler.select_destinations.pending_request import PendingRequest, Settings
from scheduler.wire.context import Deadline, RequestContext
from tests.builders import a_request

# Returns what is to be claimed, None for nothing.
Decide = Callable[[NewestClaims], ClaimRequest | None]


class ClaimingLoop(SchedulingLoop):
    """Rounds of claim requests; results has the futures of what became of them, as they came.

    Without begin each round and step runs in a thread of its own.
    """

    def __init__(
        self,
        database: Database,
        begin: Callable[[Callable[[], None]], object] | None = None,
        publish: Callable[[Any], None] = lambda _: None,
    ) -> None:
        super().__init__(database, HostCache(database), begin=begin)
        self.claimer = Claimer(database, ClaimSettings(), publish)
        self._decisions: dict[int, Decide] = {}
        self._results: dict[int, Future[ClaimResult | None]] = {}

    def submit(
        self, decide: Decide, group: InstanceGroup | None = None, deadline: Deadline | None = None
    ) -> "Future[ClaimResult | None]":
        """Decide and claim in the next round; return the future of the result."""
        pending = self.pending(decide, group, deadline)
        result = self._results[id(pending)]
        self.join(pending)
        return result

    def claim(self, request: ClaimRequest, deadline: Deadline | None = None) -> ClaimResult:
        """Claim what a request wants; return the result or raise the error."""
        future = self.submit(lambda _: request, deadline=deadline)
        while True:
            try:
                result = future.result(loop.PATIENCE)
            except TimeoutError:
                self.begin_round()
            else:
                assert result is not None
                return result

    def pending(
        self, decide: Decide, group: InstanceGroup | None = None, deadline: Deadline | None = None
    ) -> PendingRequest:
        """Return a request that has not joined a round yet."""
        deadline = deadline or Deadline(time.monotonic())
        spec = a_request(instance_group=group)
        trace = RequestTrace(RequestContext(), [None], time.monotonic())
        reads = TimedReads(self._database, None, deadline.left)  # type: ignore[arg-type]
        settings = Settings(FilterScheduler(Plan()))
        pending = PendingRequest(
            Request(spec, [None]), "d", deadline, trace, settings, self.claimer, reads
        )
        self._decisions[id(pending)], self._results[id(pending)] = decide, Future()
        return pending

    def decide(self, pending: PendingRequest, newest: NewestClaims) -> None:
        """Take what the request wants for what was decided."""
        pending.attempt.claims = self._decisions[id(pending)](newest)

    def settle(self, pending: PendingRequest) -> None:
        """Set the result, or the error."""
        attempt, result = pending.attempt, self._results[id(pending)]
        attempt.is_over = True
        if attempt.error is not None:
            result.set_exception(attempt.error)
        else:
            result.set_result(attempt.result)
