# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The conductor's side: ask until there is an answer, and try another host if a build fails.

Unanswered requests are sent again as they were, with the same request id and instance uuids, by
which a scheduler knows that it has claimed for them already.
"""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol
from uuid import uuid4

from oslo_log import log

from scheduler.objects.request_spec import RequestSpec
from scheduler.objects.selection import Selection
from scheduler.objects.shape import Fields
from scheduler.rpc import retries
from scheduler.rpc.codec import SelectArguments, encode_select_arguments
from scheduler.rpc.context import RequestContext
from scheduler.rpc.failures import MaxRetriesExceeded, NoValidHost, ServiceUnavailable
from scheduler.rpc.retries import RetryPolicy

LOG = log.getLogger(__name__)


class BuildFailed(Exception):
    """Raised by the caller's own function: the instance may be tried on another host."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class Asking(Protocol):
    """The part of SchedulerClient that is needed here."""

    def ask(
        self, context: RequestContext, arguments: Fields, timeout: float
    ) -> list[list[Selection]]:
        """Send a request once; raises ServiceUnavailable if it is not answered in time."""


class Conductor:
    """Places instances and builds them. Many threads may share one.

    now, sleep and chance are time.monotonic, time.sleep and random.random, or what a test gives.
    """

    def __init__(
        self,
        client: Asking,
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
        """Return for each instance the destination, followed by alternates if they are wanted.

        Raises NoValidHost and InvalidInput, which are never asked again; ServiceUnavailable when
        the deadline has passed without an answer. What a scheduler answered unseen is then still
        claimed, until the lease ends or the same instances are placed again.
        """
        asked = SelectArguments(spec, list(instance_uuids), True, return_alternates)
        return self._ask(_identified(context), encode_select_arguments(asked))

    def build(
        self,
        context: RequestContext,
        spec: RequestSpec,
        instance_uuid: str,
        build: Callable[[Selection], object],
    ) -> Selection:
        """Place one instance, call build with the selection, and return that if it succeeds.

        When build raises BuildFailed, the instance is placed again, on none of the hosts tried.
        Raises MaxRetriesExceeded when no attempt is left, NoValidHost when no other host is, each
        with the last BuildFailed as its cause; and what place() and build raise besides.
        """
        context = _identified(context)
        wanted = spec.for_instance(instance_uuid)
        wanted.num_instances = 1
        if retries.may_reschedule(wanted, self._policy.max_attempts):
            return self._build_somewhere(context, wanted, build)
        return self._build_once(context, wanted, build)

    def _build_somewhere(
        self, context: RequestContext, spec: RequestSpec, build: Callable[[Selection], object]
    ) -> Selection:
        last: BuildFailed | None = None
        candidates: list[Selection] = []
        while True:
            spec.retry = retries.next_attempt(spec.retry)
            self._check_attempts(spec, last)
            candidates = candidates or self._candidates(context, spec, last)
            chosen = candidates.pop(0)
            spec.retry = retries.with_tried(spec.retry, chosen)
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
                spec.retry.num_attempts,
                last.reason,
            )

    def _build_once(
        self, context: RequestContext, spec: RequestSpec, build: Callable[[Selection], object]
    ) -> Selection:
        """Place and build without retry: the scheduler is told of no attempts."""
        chosen, *_ = self._candidates(context, spec, None)
        try:
            build(chosen)
        except BuildFailed as failure:
            reason = retries.exhausted(1, str(spec.instance_uuid), failure.reason)
            raise MaxRetriesExceeded(reason) from failure
        return chosen

    def _check_attempts(self, spec: RequestSpec, last: BuildFailed | None) -> None:
        allowed = self._policy.max_attempts
        if spec.retry and spec.retry.num_attempts > allowed:
            why = last.reason if last else None
            reason = retries.exhausted(allowed, str(spec.instance_uuid), why)
            raise MaxRetriesExceeded(reason) from last

    def _candidates(
        self, context: RequestContext, spec: RequestSpec, last: BuildFailed | None
    ) -> list[Selection]:
        """Return where to build next, the claimed destination first."""
        alternates = self._policy.use_alternates
        try:
            found = self.place(context, spec, [str(spec.instance_uuid)], alternates)
        except NoValidHost as refusal:
            raise refusal from last
        # The fake driver's answer.
        if not found:
            raise NoValidHost("The scheduler selected nothing.") from last
        return found[0]

    def _ask(self, context: RequestContext, arguments: Fields) -> list[list[Selection]]:
        """Send a request, and the very same again while no answer comes."""
        policy = self._policy
        left, ends = policy.deadline, self._now() + policy.deadline
        pauses = retries.pauses(policy, self._chance)
        attempt = 0
        while True:
            attempt += 1
            try:
                return self._client.ask(context, arguments, min(policy.attempt_timeout, left))
            except ServiceUnavailable as failure:
                last = failure
            pause = next(pauses)
            left = ends - self._now() - pause
            told = f"Request {context.request_id} is not answered in attempt {attempt}"
            if left <= 0:
                raise ServiceUnavailable(
                    f"{told}, the last before the deadline of {policy.deadline:g} s; it may be"
                    f" repeated with the same instance uuids. The last failure: {last.reason}"
                ) from last
            LOG.info("%s, asking again in %.1f s: %s", told, pause, last.reason)
            self._sleep(pause)


def _identified(context: RequestContext) -> RequestContext:
    """Return the context with a request id, without which no two requests are the same."""
    return context if context.request_id else replace(context, request_id=f"req-{uuid4()}")
