# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The walk of a request: view, decide, claim, answer; a lost race leads back to the view."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from inventory.claims import Claimed, ClaimLost, Order
from inventory.engine import Database
from scheduler.answers import Answer, Answers
from scheduler.attestation import Attestation, levels_for
from scheduler.claiming import Claimer
from scheduler.claiming.groups import with_members
from scheduler.claiming.orders import Asked, order_of
from scheduler.decision import pipeline
from scheduler.decision.host_table import HostTable
from scheduler.decision.outcome import Decision, Refusal
from scheduler.decision.pipeline import NOT_ENOUGH, Request
from scheduler.decision_log import Complaints, Course
from scheduler.drivers import BaseDriver
from scheduler.host_view import HostView
from scheduler.objects.request_spec import RequestSpec
from scheduler.requests import request_of
from scheduler.rpc.codec import SelectArguments, selections_from_json, selections_to_json
from scheduler.rpc.context import RequestContext
from scheduler.rpc.deadlines import Deadline
from scheduler.rpc.failures import NoValidHost, ServiceUnavailable

TOO_LATE = "The request took longer than its caller waits."


@dataclass(slots=True)
class _Walk:
    """One request on its way to a claim.

    fresh asks for a view that has all that was committed until now; released says that what was
    pending for the instances from an older request is given back.
    """

    request: Request
    request_id: str | None
    digest: str
    course: Course
    deadline: Deadline
    fresh: bool = False
    released: bool = False

    @property
    def known(self) -> list[str]:
        """The instances that the caller has named."""
        return [uuid for uuid in self.request.instance_uuids if uuid]


class Destinations:
    """Answers requests with destinations. One per process; many threads may use it.

    Without a claimer what a decision takes is remembered in the view, and nowhere else.
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
    ) -> None:
        self.driver = driver
        self.attestation = attestation
        self.claimer = claimer
        self.view = view
        self._database = database
        self._max_attempts = max_attempts
        self._answers = Answers(default_zone)
        self._complaints = Complaints()

    def select(
        self, asked: SelectArguments, caller: RequestContext, deadline: Deadline | None = None
    ) -> Answer:
        """Return for each instance its destination and, where they are asked for, alternates.

        Raises NoValidHost unless all instances have one; nothing is taken then. Raises InvalidInput
        for a server group that does not exist, DatabaseUnavailable, and ServiceUnavailable when
        there is a deadline and it has passed.
        """
        course = Course(asked.instance_uuids, time.monotonic())
        request = request_of(asked, caller, self._database, self._max_attempts)
        if self.claimer is None or request.spec.is_rebuild:
            return self._consumed(request, course)
        deadline = deadline or Deadline(course.began)
        walk = _Walk(request, caller.request_id, asked.digest, course, deadline)
        return self._claimed(walk, self.claimer)

    def rehearse(
        self, asked: SelectArguments, caller: RequestContext, most: int = 100
    ) -> tuple[Decision, list[Refusal]]:
        """Return what select() would decide now, and why up to that many hosts would be refused.

        Nothing is taken. Raises InvalidInput and DatabaseUnavailable.
        """
        request = request_of(asked, caller, self._database, self._max_attempts)
        with self._hosts(request.spec) as hosts:
            decision = self.driver.decide(hosts.working_copy(), request)
            plan = self.driver.plan
            refusals = pipeline.explain(hosts.working_copy(), request.spec, plan, most)
        self._complaints.say(decision.warnings)
        return decision, refusals

    def _consumed(self, request: Request, course: Course) -> Answer:
        """Decide once, and remember here what was taken."""
        with self._hosts(request.spec) as hosts:
            course.view_age = self.view.age
            decision = self.driver.decide(hosts.working_copy(), request)
            self.view.consume(decision, request.spec)
            answer = self._answers.to(decision, hosts, request.spec)
        self._finish(decision, course)
        return answer

    def _claimed(self, walk: _Walk, claimer: Claimer) -> Answer:
        """Decide and claim until a claim holds, or it is sure that there is no host."""
        while walk.course.conflicts < claimer.terms.attempts:
            if walk.deadline.passed():
                raise ServiceUnavailable(TOO_LATE)
            decision, order, answer = self._decided(walk, claimer)
            claimed = self._hold(walk, claimer, order) if order else None
            if decision.shortage:
                claimed = self._earlier(walk, claimer)
            if claimed is not None and claimed.repeated:
                answer = [selections_from_json(each or "[]") for each in claimed.answers]
                walk.course.report_repeated(answer)
                return answer
            if claimed is not None or (order is None and (walk.fresh or not decision.shortage)):
                self._finish(decision, walk.course)
                return answer
            # What others have reserved may never be claimed: their hosts are read again as well.
            self.view.distrust(self.view.reserved)
            walk.fresh = True
        walk.course.report_given_up()
        raise NoValidHost(NOT_ENOUGH)

    def _decided(self, walk: _Walk, claimer: Claimer) -> tuple[Decision, Order | None, Answer]:
        """Decide, and take in the view what is about to be claimed."""
        request = replace(
            walk.request,
            spec=with_members(walk.request.spec, walk.known, claimer.members),
            # Who draws the same again meets the same competitors.
            seed=walk.request.seed + walk.course.conflicts,
            choices=claimer.width.choices,
        )
        with self._hosts(request.spec, 0.0 if walk.fresh else None) as hosts:
            walk.course.view_age = self.view.age
            decided = hosts.working_copy()
            decision = self.driver.decide(decided, request)
            answer = self._answers.to(decision, hosts, request.spec)
            if not answer:
                return decision, None, answer
            texts = [selections_to_json(each) for each in answer]
            asked = Asked(walk.request_id, walk.digest, request, decision, decided, texts)
            order = order_of(asked, claimer.terms, self.view.reports)
            self.view.reserve(decision, request.spec)
        return decision, order, answer

    def _hold(self, walk: _Walk, claimer: Claimer, order: Order) -> Claimed | None:
        """Claim what was decided; None if somebody else was faster."""
        reserved = {each.node_id for each in order.claims if not each.alternate}
        doubtful: set[int] = reserved
        try:
            claimed = claimer.claim(order)
            doubtful = reserved if claimed.repeated else {*claimed.left, *order.documents}
            return claimed
        except ClaimLost as lost:
            walk.course.conflicts += 1
            doubtful = reserved | set(lost.nodes)
            return None
        finally:
            # Nothing of what was reserved may stay, also where nobody knows what has happened.
            self.view.distrust(doubtful)
            self.view.settled(reserved)

    def _earlier(self, walk: _Walk, claimer: Claimer) -> Claimed | None:
        """Return what the same request was answered before, if there is no host for it now.

        What another request holds for the instances is in this one's way, and void with it.
        """
        if len(walk.known) < len(walk.request.instance_uuids):
            return None
        answers, pending = claimer.lookup(walk.request_id, walk.digest, walk.known)
        if answers is not None:
            return Claimed(answers, repeated=True)
        if pending and not walk.released:
            self.view.distrust(claimer.release(walk.known))
            walk.released, walk.fresh = True, False
        return None

    def _finish(self, decision: Decision, course: Course) -> None:
        """Say what was decided; raises NoValidHost where it is that there is no host."""
        self._complaints.say(decision.warnings)
        course.report(decision)
        if decision.shortage:
            raise NoValidHost(decision.shortage.reason)

    @contextmanager
    def _hosts(self, spec: RequestSpec, max_age: float | None = None) -> Iterator[HostTable]:
        """Yield the table, fresh and locked, with the levels of trust if the request needs them.

        max_age, in seconds, replaces that of the driver.
        """
        driver = self.driver
        max_age = driver.view_max_age if max_age is None else max_age
        # Asked before the table is locked: the service may take its time.
        levels = levels_for(
            spec, driver.plan, self.attestation, lambda: self.view.nodenames(max_age)
        )
        with self.view.current(max_age) as hosts:
            if levels is not None:
                self.view.set_trust(levels)
            yield hosts
