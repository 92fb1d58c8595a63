# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Release claims of instances that, as Nova's conductor says, will not come to their hosts.

Schedulers get no message when the last attempt of a build or a resize has failed on all hosts, or
when an instance was deleted before it reached one.
"""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Condition
from typing import Any

from oslo_log import log

from inventory.claims.types import ClaimLost
from scheduler.cached_thread_pool import CachedThreadPool
from scheduler.claims.claimer import Claimer
from scheduler.client.nova_conductor import InstanceState, NoConductor
from scheduler.request_trace import PLACED, REPEATED, RequestTrace

LOG = log.getLogger(__name__)
# How many instances are watched; claims of others stay until their leases end.
MAX_WATCHED = 10_000
# How many are looked up in the database at a time.
BATCH = 100
# An old claim is checked again after this share of its age, if that is more than an interval.
SHARE = 0.125
# Seconds that a stop waits for a check under way.
STOP_TIMEOUT = 1.0


@dataclass(frozen=True, slots=True)
class Pace:
    """How often a conductor is asked, in seconds.

    interval is between a claim and its first check, and between checks; recheck is until an answer
    against a claim has to be repeated, as states may pass; pause is between two batches that are
    not full. After no answer there is no check for outage, or silence if none was ever answered.
    """

    interval: float = 4.0
    recheck: float = 2.0
    pause: float = 0.5
    silence: float = 600.0
    outage: float = 30.0


@dataclass(slots=True, eq=False)
class _Watched:
    """An instance, its claim time, when its next check is due, and what the last one opposed.

    is_adopted says that others have claimed, maybe an operator for a move that is to come.
    """

    uuid: str
    claimed: float
    due: float
    against: frozenset[int] = frozenset()
    is_adopted: bool = False


class ClaimReconciler:
    """An observer that checks new claims, in a thread that exists only while there are some.

    ask returns what Nova knows of an instance, or raises NoConductor.
    """

    def __init__(
        self,
        claimer: Callable[[], Claimer | None],
        ask: Callable[[str], InstanceState | None],
        enabled: Callable[[], bool] = lambda: True,
        pace: Pace = Pace(),
    ) -> None:
        self._claimer, self._ask, self._enabled, self._pace = claimer, ask, enabled, pace
        self._condition = Condition()
        self._watched: dict[str, _Watched] = {}
        self._is_working = self._is_stopped = False
        # When the thread may check again, and when it is going to.
        self._resumes_at, self._wakes_at = -math.inf, math.inf
        self._has_answered = self._is_silent = False
        self._threads = CachedThreadPool()

    def on_finished(self, trace: RequestTrace) -> None:
        """Watch the instances of a request that got hosts."""
        if trace.outcome in (PLACED, REPEATED) and self._enabled():
            self.watch(uuid for uuid in trace.instance_uuids if uuid)

    def watch(self, uuids: Iterable[str]) -> None:
        """Watch the claims of these instances, made now; return at once."""
        now = time.monotonic()
        self._add(_Watched(uuid, now, now + self._pace.interval) for uuid in uuids)

    def adopt(self, ages: Mapping[str, float]) -> None:
        """Watch claims of others, too, by their ages in seconds; return at once."""
        now = time.monotonic()
        self._add(
            _Watched(uuid, now - age, now, is_adopted=True)
            for uuid, age in ages.items()
            if uuid not in self._watched
        )

    def _add(self, instances: Iterable[_Watched]) -> None:
        now = time.monotonic()
        with self._condition:
            for each in instances:
                if len(self._watched) < MAX_WATCHED:
                    self._watched[each.uuid] = each
            if self._is_working or self._is_stopped or not self._watched:
                # It may wait for one that is due much later.
                if max(now + self._pace.interval, self._resumes_at) < self._wakes_at:
                    self._condition.notify_all()
                return
            self._is_working = True
        self._threads.run(self._work)

    @property
    def is_watching(self) -> bool:
        """Whether there is a thread."""
        return self._is_working

    def stop(self) -> None:
        """Stop watching; wait shortly for a check under way."""
        with self._condition:
            self._is_stopped = True
            self._condition.notify_all()
            self._condition.wait_for(lambda: not self._is_working, STOP_TIMEOUT)

    def _work(self) -> None:
        while due := self._next():
            try:
                self._check(due)
            except NoConductor as error:
                self._back_off(str(error))
            # A thread that ends would watch no more.
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
                LOG.info("Cannot compare claims with Nova's instances now: %s", problem)

    def _next(self) -> list[_Watched]:
        """Wait for instances that are due and return a batch of them; none ends the thread."""
        with self._condition:
            while self._watched and not self._is_stopped:
                now = time.monotonic()
                first = min(each.due for each in self._watched.values())
                self._wakes_at = max(first, self._resumes_at)
                if self._wakes_at > now:
                    self._condition.wait(self._wakes_at - now)
                    continue
                due = [each for each in self._watched.values() if each.due <= now][:BATCH]
                for each in due:
                    each.due = now + max(self._pace.interval, SHARE * (now - each.claimed))
                if len(due) < BATCH:
                    self._resumes_at = now + self._pace.pause
                return due
            self._is_working = False
            self._condition.notify_all()
            return []

    def _check(self, due: Sequence[_Watched]) -> None:
        """Check instances with pending claims, and forget the others; raises NoConductor."""
        claimer = self._claimer()
        claims: defaultdict[str, list[Any]] = defaultdict(list)
        # Before the conductor is asked: an answer says nothing about later claims.
        for row in claimer.pending([each.uuid for each in due]) if claimer else ():
            claims[row.instance_uuid].append(row)
        for each in due:
            if self._is_stopped:
                return
            pending, age = claims.get(each.uuid), time.monotonic() - each.claimed
            if not claimer or not pending or age > claimer.settings.lease:
                with self._condition:
                    # It may have been claimed again meanwhile.
                    if self._watched.get(each.uuid) is each:
                        del self._watched[each.uuid]
            else:
                self._compare(claimer, each, pending)

    def _compare(self, claimer: Claimer, watched: _Watched, claims: Sequence[Any]) -> None:
        """Release claims that two answers spoke against."""
        state = self._ask(watched.uuid)
        self._has_answered, self._is_silent = True, False
        over = [row for row in claims if state and is_over(state, row.host)]
        if watched.is_adopted and state and state.host is not None:
            over = []
        against = frozenset(row.id for row in over)
        if state and against and against == watched.against:
            _release(claimer, over, state)
        elif against:
            watched.due = time.monotonic() + self._pace.recheck
        watched.against = against

    def _back_off(self, problem: str) -> None:
        pause = self._pace.outage if self._has_answered else self._pace.silence
        self._resumes_at = time.monotonic() + pause
        if not self._is_silent:
            LOG.info(
                "No Nova conductor answers: claims of failed builds stay until their leases end"
                " (%s)",
                problem,
            )
        self._is_silent = True


def is_over(state: InstanceState, host: str) -> bool:
    """Return whether an instance in this state will not come to a host that is claimed for it.

    Builds and moves have a task from before the scheduler is asked until their end; compute hosts
    of Nova clear that of builds for a moment.
    """
    if not state.exists:
        return True
    if state.task_state or state.vm_state in (None, "building"):
        return False
    if state.host is None:
        return state.vm_state in ("error", "shelved_offloaded")
    return state.host != host


def _release(claimer: Claimer, claims: Sequence[Any], state: InstanceState) -> None:
    uuid, hosts = claims[0].instance_uuid, ", ".join(sorted({row.host for row in claims}))
    try:
        claimer.release_rows(claims)
    # They have changed meanwhile, and are checked again.
    except ClaimLost:
        return
    where = f"is on host {state.host}" if state.host else f"has failed ({state.vm_state})"
    reason = where if state.exists else "is deleted"
    LOG.info("Released claims of instance %s on %s: it %s", uuid, hosts, reason)
