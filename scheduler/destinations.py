# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The walk of a request: view, decide, claim, answer; a lost race leads back to the view."""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial

from inventory.claims import ClaimLost, Outdated, PartlyAnswered
from inventory.engine import Database
from inventory.orders import Claimed, Order
from scheduler.answers import Answer, Answers
from scheduler.attestation import Attestation, levels_for
from scheduler.cached_thread_pool import CachedThreadPool
from scheduler.claiming import Claimer
from scheduler.claiming.claimer import TooLate, forever
from scheduler.claiming.groups import with_members
from scheduler.claiming.orders import Asked, holdable, order_of
from scheduler.claiming.timed_reads import TimedReads
from scheduler.course import GIVEN_UP, NOTHING, PLACED, REPEATED, Course, Witness, witnessed
from scheduler.decision.explaining import Explanation, Extent, explain, index_of
from scheduler.decision.film import Film
from scheduler.decision.host_table import HostTable
from scheduler.decision.outcome import Decision
from scheduler.decision.pipeline import NOT_ENOUGH, Request
from scheduler.decision_log import DecisionLog
from scheduler.drivers import BaseDriver
from scheduler.host_view import HostView
from scheduler.objects.request_spec import RequestSpec
from scheduler.requests import request_of, with_names
from scheduler.rpc.codec import SelectArguments, selections_from_json, selections_to_json
from scheduler.rpc.context import RequestContext
from scheduler.rpc.deadlines import Deadline
from scheduler.rpc.failures import InvalidInput, NoValidHost, ServiceUnavailable
from scheduler.walk import Walk

OVERDUE = "The request took longer than its caller waits."
# How often a request is decided again since others may give back what they have reserved.
MOST_DOUBTS = 5
# Of how many hosts it is told what would become of them.
REHEARSED = Extent(most=100)


class Destinations:
    """Answers requests with destinations. One per process; many threads may use it.

    Without a claimer what a decision takes is remembered in the view, and nowhere else. Witnesses
    hear how each request went; with a film they see what was decided on.
    """

    def __init__(
        self,
        database: Database,
        view: HostView,
        driver: BaseDriver,
        max_attempts: int = 3,
        default_zone: str = "nova",
        attestation: Attestation | None = None,
        claimer: Claimer | None = None,
        witnesses: Sequence[Witness] = (),
        film: Film | None = None,
    ) -> None:
        self.driver = driver
        self.attestation = attestation
        self.claimer = claimer
        self.view = view
        self._database = database
        self._threads = CachedThreadPool()
        self._max_attempts = max_attempts
        self._answers = Answers(default_zone)
        self._witnesses = (DecisionLog(), *witnesses)
        self.film = film

    def select(
        self, asked: SelectArguments, caller: RequestContext, deadline: Deadline | None = None
    ) -> Answer:
        """Return for each instance its destination and, where they are asked for, alternates.

        Raises NoValidHost unless all instances have one; nothing is taken then. Raises InvalidInput
        for a server group that does not exist, and for a request that came after a later attempt
        of its own, DatabaseUnavailable, and ServiceUnavailable when the deadline has passed.
        """
        deadline = deadline or Deadline(time.monotonic())
        course = Course(caller, asked.instance_uuids, time.monotonic())
        course.seconds["queue"] = deadline.waited()
        with witnessed(course, self._witnesses):
            reads = TimedReads(self._database, self._threads, deadline.left)
            request = request_of(asked, caller, reads, self._max_attempts)
            if self.claimer is None or request.spec.is_rebuild:
                return self._consumed(request, course)
            request = with_names(request, caller.request_id, asked.digest)
            course.instance_uuids = request.instance_uuids
            walk = Walk(request, caller.request_id, asked.digest, course, deadline)
            return self._claimed(walk, self.claimer)

    def rehearse(
        self, asked: SelectArguments, caller: RequestContext, extent: Extent = REHEARSED
    ) -> tuple[Decision, Explanation]:
        """Return what select() would decide now, and why: of the refused instance or the first one.

        Nothing is taken, and others are decided about meanwhile. Raises InvalidInput, NoValidHost
        for what nobody here can allocate, and DatabaseUnavailable.
        """
        request = request_of(asked, caller, self._database, self._max_attempts)
        if self.claimer is not None and not request.spec.is_rebuild:
            uuids = [uuid for uuid in request.instance_uuids if uuid]
            request = _brought_up_to_date(request, uuids, self.claimer)
        driver = self.driver
        with self.hosts(request.spec, driver) as hosts:
            picture = hosts.detached()
        extent.pause()
        decision = driver.decide(picture.working_copy(), request)
        extent.pause()
        return decision, explain(picture, request, driver, index_of(decision), extent)

    def _consumed(self, request: Request, course: Course) -> Answer:
        """Decide once, and remember here what was taken."""
        with self._hosts(request.spec, course) as hosts:
            decision = self._decision(hosts.working_copy(), hosts, request, course)
            self.view.consume(decision, request.spec)
            answer = self._answers.to(decision, hosts, request.spec)
        _finish(decision, course)
        return answer

    def _claimed(self, walk: Walk, claimer: Claimer) -> Answer:
        """Decide and claim until a claim holds, or it is sure that there is no host."""
        while walk.course.conflicts < claimer.terms.attempts:
            if walk.deadline.passed():
                raise ServiceUnavailable(OVERDUE)
            try:
                answer = self._tried(walk, claimer)
            except ClaimLost:
                walk.course.conflicts += 1
                answer = None
            except PartlyAnswered as partly:
                walk.narrow(partly.answers)
                answer = None
            except Outdated as error:
                raise InvalidInput(f"instance_uuids: {error}") from None
            except TooLate:
                raise ServiceUnavailable(OVERDUE) from None
            if answer is not None:
                return walk.whole(answer)
            walk.fresh = True
        walk.course.outcome = GIVEN_UP
        raise NoValidHost(NOT_ENOUGH)

    def _tried(self, walk: Walk, claimer: Claimer) -> Answer | None:
        """Decide and claim; return None where it is to be decided again on what is newest then."""
        decision, order, answer = self._decided(walk, claimer)
        if order is not None:
            claimed: Claimed | None = self._hold(walk, claimer, order)
        elif decision.shortage:
            claimed = self._instead(walk, claimer)
        else:
            claimed = None
        if claimed is not None and (claimed.repeated or claimed.refused):
            answer = [selections_from_json(each or "[]") for each in claimed.answers]
        if claimed is not None and claimed.repeated:
            walk.course.outcome, walk.course.answer = REPEATED, answer
            return answer
        if decision.shortage and not self._is_sure(walk, claimed):
            return None
        _finish(decision, walk.course)
        return answer

    def _decided(self, walk: Walk, claimer: Claimer) -> tuple[Decision, Order | None, Answer]:
        """Decide, and take in the view what is about to be claimed."""
        left = walk.deadline.left
        request = _brought_up_to_date(walk.request, walk.identity.uuids, claimer, left)
        # Who draws the same again meets the same competitors.
        seed, holds = request.seed + walk.course.conflicts, claimer.terms.alternates
        request = replace(request, seed=seed, holds_alternates=holds)
        with self._hosts(request.spec, walk.course, walk.fresh) as hosts:
            walk.contested = bool(self.view.reserved)
            decided = hosts.working_copy()
            decision = self._decision(decided, hosts, request, walk.course)
            if holds:
                decision = holdable(decision)
            answer = self._answers.to(decision, hosts, request.spec)
            if not answer:
                return decision, None, answer
            texts = _texts(answer, holds)
            asked = Asked(walk.request_id, walk.digest, request, decision, decided, texts)
            order = order_of(asked, claimer.terms, self.view)
            self.view.reserve(decision, request.spec)
        return decision, order, answer

    def _hold(self, walk: Walk, claimer: Claimer, order: Order) -> Claimed:
        """Claim what was decided; raises what Claimer.claim() does."""
        reserved = {each.node_id for each in order.claims if not each.alternate}
        doubtful = held = {each.node_id for each in order.claims}
        try:
            with walk.course.stage("claim"):
                claimed = claimer.claim(order, walk.deadline.left)
            if not (claimed.repeated or claimed.refused):
                doubtful = {*claimed.left, *order.documents}
            return claimed
        except ClaimLost as lost:
            doubtful = held | set(lost.nodes)
            raise
        finally:
            # Nothing of what was reserved may stay, also where nobody knows what has happened.
            self.view.distrust(doubtful)
            self.view.settled(reserved)

    def _instead(self, walk: Walk, claimer: Claimer) -> Claimed | None:
        """Return what the same request was answered before, if there is no host for it now.

        What another request holds for the instances is in this one's way, and void with it.
        """
        identity = walk.identity
        if len(identity.uuids) < len(walk.request.instance_uuids):
            return None
        with walk.course.stage("claim"):
            return claimer.make_way(identity, walk.deadline.left)

    def _is_sure(self, walk: Walk, claimed: Claimed | None) -> bool:
        """Tell whether it is certain that there is no host.

        It is not on an old view, nor when something was given back just now, nor while others have
        reserved what they may never claim: their hosts are read again.
        """
        if claimed is None and walk.fresh:
            if not walk.contested or walk.doubts >= MOST_DOUBTS:
                return True
            walk.doubts += 1
        self.view.distrust({*self.view.reserved, *(claimed.left if claimed else ())})
        return False

    def _decision(
        self, hosts: HostTable, view: HostTable, request: Request, course: Course
    ) -> Decision:
        """Decide on a working copy of the view, and remember in the course how that came about."""
        # Others may put in another film or driver meanwhile; the view is what this one asked for.
        driver, film = course.driver or self.driver, self.film
        with course.stage("decide"):
            decision = driver.decide(hosts, request)
        course.frame = film.take(view) if film else None
        if course.frame:
            course.frames.append(course.frame)
        course.request, course.decision = request, decision
        return decision

    @contextmanager
    def hosts(
        self, spec: RequestSpec, driver: BaseDriver, fresh: bool = False
    ) -> Iterator[HostTable]:
        """Yield the table, locked, as a driver wants it for a request, levels of trust included.

        For fresh see HostView.current().
        """
        max_age = driver.view_max_age
        # Asked before the table is locked: the service may take its time.
        levels = levels_for(
            spec, driver.plan, self.attestation, lambda: self.view.nodenames(max_age)
        )
        with self.view.current(max_age, fresh) as hosts:
            if levels is not None:
                self.view.set_trust(levels)
            yield hosts

    @contextmanager
    def _hosts(self, spec: RequestSpec, course: Course, fresh: bool = False) -> Iterator[HostTable]:
        """Yield the same to a request, whose course has how long that took, and for which driver.

        fresh asks for what was committed until now, however old the driver lets the view be.
        """
        # Once for each attempt, see _decision().
        course.driver = driver = self.driver
        with ExitStack() as locked:
            with course.stage("view"):
                hosts = locked.enter_context(self.hosts(spec, driver, fresh))
            course.view_age = self.view.age
            yield hosts


def _brought_up_to_date(
    request: Request,
    uuids: Collection[str],
    claimer: Claimer,
    left: Callable[[], float] = forever,
) -> Request:
    """Return a request with what is known here of its group and of other schedulers.

    left returns for how many seconds somebody waits.
    """
    spec = with_members(request.spec, uuids, partial(claimer.members, left=left))
    return replace(request, spec=spec, choices=claimer.width.choices)


def _texts(answer: Answer, alternates: bool) -> list[list[str]]:
    """Return the texts that claims are to answer with: one for each that is claimed."""
    if alternates:
        return [[selections_to_json([part]) for part in each] for each in answer]
    return [[selections_to_json(each)] for each in answer]


def _finish(decision: Decision, course: Course) -> None:
    """Say how a request ends; raises NoValidHost where it is that there is no host."""
    if decision.shortage:
        raise NoValidHost(decision.shortage.reason)
    course.outcome = PLACED if decision.placements else NOTHING
