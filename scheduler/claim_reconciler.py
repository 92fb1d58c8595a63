# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Gives back the claims of instances of which Nova's conductor says that they will not come.

Nobody tells schedulers that the last attempt of a build has failed, or a resize on all hosts, or
that an instance was deleted before it reached one.
"""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from threading import Condition
from typing import Any

from oslo_log import log

from inventory.claims import ClaimLost
from scheduler.cached_thread_pool import CachedThreadPool
from scheduler.claiming import Claimer
from scheduler.course import PLACED, REPEATED, Course
from scheduler.rpc.nova_conductor import InstanceState, NoConductor

LOG = log.getLogger(__name__)
# How many instances are watched; the claims of those beyond are left to their leases.
MAX_WATCHED = 10_000
# How many are looked up in the database at a time.
BATCH = 100
# How much of the age of a claim passes between two questions, where that is more than an interval.
SHARE = 0.125
# Seconds that a stop waits for a question under way.
STOP_TIMEOUT = 1.0


@dataclass(frozen=True, slots=True)
class Pace:
    """How often a conductor is asked, in seconds.

    interval is until it is asked after a claim, and again; recheck until an answer against a claim
    has to be given again, so that states that only pass do no harm; pause between two looks unless
    many are due. silence and outage are without questions after one that nobody has answered:
    where nobody ever has, or else.
    """

    interval: float = 4.0
    recheck: float = 2.0
    pause: float = 0.5
    silence: float = 600.0
    outage: float = 30.0


@dataclass(slots=True, eq=False)
class _Watched:
    """An instance with the moments of its claim and of the next question.

    against are the claims that the last answer spoke against.
    """

    uuid: str
    claimed: float
    due: float
    against: frozenset[int] = frozenset()


class ClaimReconciler:
    """A witness that watches what was claimed, in a thread that there is only while it has to.

    ask returns what Nova knows of an instance and raises NoConductor; enabled tells whether claims
    are to be watched at all.
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
        # When the thread may look again, and when it is going to.
        self._resumes_at, self._wakes_at = -math.inf, math.inf
        self._has_answered = self._is_silent = False
        self._threads = CachedThreadPool()

    def ended(self, course: Course) -> None:
        """Watch the instances of a request that has got hosts."""
        if course.outcome in (PLACED, REPEATED) and self._enabled():
            self.watch(uuid for uuid in course.instance_uuids if uuid)

    def watch(self, uuids: Iterable[str]) -> None:
        """Watch the claims of these instances, made now; returns at once."""
        now = time.monotonic()
        with self._condition:
            for uuid in uuids:
                if len(self._watched) < MAX_WATCHED:
                    self._watched[uuid] = _Watched(uuid, now, now + self._pace.interval)
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
        """Watch nothing any more; a question under way is waited for shortly."""
        with self._condition:
            self._is_stopped = True
            self._condition.notify_all()
            self._condition.wait_for(lambda: not self._is_working, STOP_TIMEOUT)

    def _work(self) -> None:
        while due := self._next():
            problem = ""
            try:
                self._check(due)
            # A thread that ends would watch no more.
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
            if problem:
                LOG.info("Claims cannot be compared with Nova's instances now: %s", problem)

    def _next(self) -> list[_Watched]:
        """Wait for instances that are due and return them; none at the end of the thread."""
        with self._condition:
            while self._watched and not self._is_stopped:
                now = time.monotonic()
                first = min(each.due for each in self._watched.values())
                self._wakes_at = max(first, self._resumes_at)
                if self._wakes_at <= now:
                    return self._due(now)
                self._condition.wait(self._wakes_at - now)
            self._is_working = False
            self._condition.notify_all()
            return []

    def _due(self, now: float) -> list[_Watched]:
        due = [each for each in self._watched.values() if each.due <= now][:BATCH]
        for each in due:
            each.due = now + max(self._pace.interval, SHARE * (now - each.claimed))
        if len(due) < BATCH:
            self._resumes_at = now + self._pace.pause
        return due

    def _check(self, due: Sequence[_Watched]) -> None:
        """Ask about those that have claims that wait for them, and forget the others."""
        claimer = self._claimer()
        claims: defaultdict[str, list[Any]] = defaultdict(list)
        # Read before it is asked: an answer says nothing about what is claimed after it.
        for row in claimer.pending([each.uuid for each in due]) if claimer else ():
            claims[row.instance_uuid].append(row)
        for each in due:
            if self._is_stopped:
                return
            mine = claims.get(each.uuid)
            if not claimer or not mine or time.monotonic() - each.claimed > claimer.terms.lease:
                self._forget(each)
            elif not self._judge(claimer, each, mine):
                return

    def _forget(self, watched: _Watched) -> None:
        with self._condition:
            # It may have been claimed for anew.
            if self._watched.get(watched.uuid) is watched:
                del self._watched[watched.uuid]

    def _judge(self, claimer: Claimer, watched: _Watched, claims: Sequence[Any]) -> bool:
        """Give back what an answer speaks against for the second time; False without an answer."""
        problem = ""
        try:
            state = self._ask(watched.uuid)
        except NoConductor as error:
            problem = str(error)
        if problem:
            self._note_silence(problem)
            return False
        self._has_answered, self._is_silent = True, False
        over = [row for row in claims if state and is_over(state, row.host)]
        against = frozenset(row.id for row in over)
        if state and against and against == watched.against:
            _give_back(claimer, over, state)
        elif against:
            watched.due = time.monotonic() + self._pace.recheck
        watched.against = against
        return True

    def _note_silence(self, problem: str) -> None:
        pace = self._pace
        wait = pace.outage if self._has_answered else pace.silence
        self._resumes_at = time.monotonic() + wait
        if not self._is_silent:
            LOG.info(
                "No Nova conductor answers: claims of builds that fail wait for the end of their"
                " leases (%s)",
                problem,
            )
        self._is_silent = True


def is_over(state: InstanceState, host: str) -> bool:
    """Tell whether an instance in this state does not come to a host where it was to come.

    Builds and moves have a task from before the scheduler is asked until their end; compute hosts
    of Nova take it from builds for a moment.
    """
    if not state.exists:
        return True
    if state.task_state or state.vm_state in (None, "building"):
        return False
    if state.host is None:
        return state.vm_state in ("error", "shelved_offloaded")
    return state.host != host


def _give_back(claimer: Claimer, claims: Sequence[Any], state: InstanceState) -> None:
    uuid, hosts = claims[0].instance_uuid, ", ".join(sorted({row.host for row in claims}))
    try:
        claimer.give_back(claims)
    # They have changed meanwhile, and are looked at again.
    except ClaimLost:
        return
    where = f"is on host {state.host}" if state.host else f"has failed ({state.vm_state})"
    why = where if state.exists else "is deleted"
    LOG.info("Instance %s %s: its claims on %s have ended", uuid, why, hosts)
