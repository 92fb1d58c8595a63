# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Place and build instances as a conductor does, with retries.

An unanswered request is repeated with the same request id and instance uuids, by which a scheduler
finds the claims that it has made for them.
"""

import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

from inventory.objects.object_schema import Fields
from scheduler.client import backoff
from scheduler.client.backoff import RetryPolicy
from scheduler.objects.request_spec import RequestSpec, SchedulerRetries, TriedHost
from scheduler.objects.selection import Selection
from scheduler.wire.arguments import SelectArguments, encode_select_arguments
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import MaxRetriesExceeded, NoValidHost, ServiceUnavailable

if TYPE_CHECKING:
    from scheduler.client.scheduler_client import SchedulerClient

LOG = logging.getLogger(__name__)


class BuildFailed(Exception):
    """Raised by the caller's build function: another host may be tried."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class Conductor:
    """Places instances and builds them; may be shared by threads.

    now, sleep and chance are time.monotonic, time.sleep and random.random, or those of a test.
    """

    def __init__(
        self,
        client: "SchedulerClient",
        policy: RetryPolicy | None = None,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._policy = policy or RetryPolicy()
        self._now = now
        self._sleep = sleep
        self._chance = chance

    def place(
        self,
        context: RequestContext,
        spec: RequestSpec,
        instance_uuids: Sequence[str],
        return_alternates: bool = False,
    ) -> list[list[Selection]]:
        """Return for each instance the destination, followed by alternates if requested.

        Raise NoValidHost and InvalidInput, which are final; ServiceUnavailable when the deadline
        has passed without an answer. A scheduler whose answer was lost keeps its claims until the
        lease ends or the same instances are placed again.
        """
        request = SelectArguments(spec, list(instance_uuids), True, return_alternates)
        return self._select(_identified(context), encode_select_arguments(request))

    def build(
        self,
        context: RequestContext,
        spec: RequestSpec,
        instance_uuid: str,
        build: Callable[[Selection], object],
    ) -> Selection:
        """Place one instance, call build with the selection, and return that if it succeeds.

        When build raises BuildFailed, the instance is placed on another host. Raise
        MaxRetriesExceeded when no attempt is left, NoValidHost when no other host is, each with the
        last BuildFailed as its cause; and any other error of place() and build.
        """
        context = _identified(context)
        one = spec.for_instance(instance_uuid)
        one.num_instances = 1
        if backoff.may_reschedule(one, self._policy.max_attempts):
            return self._build_with_retries(context, one, build)
        return self._build_once(context, one, build)

    def _build_with_retries(
        self, context: RequestContext, spec: RequestSpec, build: Callable[[Selection], object]
    ) -> Selection:
        last: BuildFailed | None = None
        candidates: list[Selection] = []
        retry = spec.retry or SchedulerRetries()
        while True:
            spec.retry = retry = replace(retry, num_attempts=retry.num_attempts + 1)
            if retry.num_attempts > self._policy.max_attempts:
                raise _exhausted(self._policy.max_attempts, spec, last) from last
            candidates = candidates or self._candidates(context, spec, last)
            chosen = candidates.pop(0)
            tried = TriedHost(chosen.service_host, chosen.nodename)
            retry = replace(retry, hosts=[*retry.hosts, tried])
            try:
                build(chosen)
                return chosen
            except BuildFailed as failure:
                last = failure
            LOG.info(
                "Build of instance %s failed on host %s node %s in attempt %s: %s",
                spec.instance_uuid,
                chosen.service_host,
                chosen.nodename,
                retry.num_attempts,
                last.reason,
            )

    def _build_once(
        self, context: RequestContext, spec: RequestSpec, build: Callable[[Selection], object]
    ) -> Selection:
        """Place and build without retry information in the request."""
        chosen, *_ = self._candidates(context, spec, None)
        try:
            build(chosen)
        except BuildFailed as failure:
            raise _exhausted(1, spec, failure) from failure
        return chosen

    def _candidates(
        self, context: RequestContext, spec: RequestSpec, last: BuildFailed | None
    ) -> list[Selection]:
        """Return the selections for one instance, the claimed destination first."""
        alternates = self._policy.use_alternates
        try:
            found = self.place(context, spec, [str(spec.instance_uuid)], alternates)
        except NoValidHost as refusal:
            raise refusal from last
        # The fake driver answers so.
        if not found:
            raise NoValidHost("The scheduler selected nothing.") from last
        return found[0]

    def _select(self, context: RequestContext, arguments: Fields) -> list[list[Selection]]:
        """Send a request, and repeat it until it is answered or the deadline has passed."""
        policy = self._policy
        left, deadline = policy.deadline, self._now() + policy.deadline
        attempts = enumerate(backoff.pauses(policy, self._chance), start=1)
        while True:
            attempt, pause = next(attempts)
            try:
                timeout = min(policy.attempt_timeout, left)
                return self._client.select_encoded(context, arguments, timeout)
            except ServiceUnavailable as failure:
                last = failure
            left = deadline - self._now() - pause
            problem = f"Request {context.request_id} is not answered in attempt {attempt}"
            if left <= 0:
                raise ServiceUnavailable(
                    f"{problem}, the last before the deadline of {policy.deadline:g} s; the"
                    " request may be repeated with the same instance uuids. The last failure:"
                    f" {last.reason}"
                ) from last
            LOG.info("%s, repeating the request in %.1f s: %s", problem, pause, last.reason)
            self._sleep(pause)


def _exhausted(
    max_attempts: int, spec: RequestSpec, last: BuildFailed | None
) -> MaxRetriesExceeded:
    """Return the error with Nova's reason."""
    return MaxRetriesExceeded(
        f"Exceeded max scheduling attempts {max_attempts} for instance {spec.instance_uuid}."
        f" Last exception: {last.reason if last else None}"
    )


def _identified(context: RequestContext) -> RequestContext:
    """Return the context with a request id, by which repeated requests are recognized."""
    return context if context.request_id else replace(context, request_id=f"req-{uuid4()}")
