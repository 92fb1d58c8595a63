# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The walk of a request: view, decide, claim, answer; a lost race leads back to the view."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from inventory.claims import ClaimLost, Outdated, PartlyAnswered
from inventory.engine import Database
from inventory.orders import Claimed, Identity, Order
from scheduler.answers import Answer, Answers
from scheduler.attestation import Attestation, levels_for
from scheduler.claiming import Claimer
from scheduler.claiming.claimer import TooLate
from scheduler.claiming.groups import with_members
from scheduler.claiming.orders import Asked, attempt_of, order_of
from scheduler.decision import pipeline
from scheduler.decision.host_table import HostTable
from scheduler.decision.outcome import Decision, Refusal
from scheduler.decision.pipeline import NOT_ENOUGH, Request
from scheduler.decision_log import Complaints, Course
from scheduler.drivers import BaseDriver
from scheduler.host_view import HostView
from scheduler.objects.request_spec import RequestSpec
from scheduler.requests import request_of, with_names
from scheduler.rpc.codec import SelectArguments, selections_from_json, selections_to_json
from scheduler.rpc.context import RequestContext
from scheduler.rpc.deadlines import Deadline
from scheduler.rpc.failures import InvalidInput, NoValidHost, ServiceUnavailable

TOO_LATE = "The request took longer than its caller waits."


# How often a request is decided again since others may give back what they have reserved.
MOST_DOUBTS = 5


@dataclass(slots=True)
class _Walk:
    """One request on its way to a claim.

    fresh asks for a view that has all that was committed until now; contested says that others had
    something reserved when it was decided. earlier are the answers that some of its instances have
    got before.
    """

    request: Request
    request_id: str | None
    digest: str
    course: Course
    deadline: Deadline
    fresh: bool = False
    contested: bool = False
    doubts: int = 0
    earlier: dict[str, str | None] = field(default_factory=dict)

    @property
    def identity(self) -> Identity:
        """What tells the request from all others; without an id not all instances have names."""
        uuids = [uuid for uuid in self.request.instance_uuids if uuid]
        return Identity(self.request_id, self.digest, uuids, attempt_of(self.request.spec))

    def narrow(self, answers: Mapping[str, str | None]) -> None:
        """Go on for the instances that have no answer yet."""
        self.earlier |= answers
        left = [uuid for uuid in self.request.instance_uuids if uuid not in answers]
        self.request = replace(self.request, instance_uuids=left)

    def whole(self, answer: Answer) -> Answer:
        """Return an answer with those that were given before, in the order of the request."""
        if not self.earlier:
            return answer
        found = iter(answer)
        return [
            selections_from_json(self.earlier[uuid] or "[]")
            if uuid in self.earlier
            else next(found)
            for uuid in self.course.instance_uuids
        ]


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
        for a server group that does not exist, and for a request that came after a later attempt
        of its own, DatabaseUnavailable, and ServiceUnavailable when the deadline has passed.
        """
        began = time.monotonic()
        request = request_of(asked, caller, self._database, self._max_attempts)
        if self.claimer is None or request.spec.is_rebuild:
            return self._consumed(request, Course(request.instance_uuids, began))
        request_id, digest = caller.request_id, asked.digest
        request = with_names(request, request_id, digest)
        course = Course(request.instance_uuids, began)
        walk = _Walk(request, request_id, digest, course, deadline or Deadline(began))
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
                raise ServiceUnavailable(TOO_LATE) from None
            if answer is not None:
                return walk.whole(answer)
            walk.fresh = True
        walk.course.report_given_up()
        raise NoValidHost(NOT_ENOUGH)

    def _tried(self, walk: _Walk, claimer: Claimer) -> Answer | None:
        """Decide and claim; return None where it is to be decided again on what is newest then."""
        decision, order, answer = self._decided(walk, claimer)
        if order is not None:
            claimed: Claimed | None = self._hold(walk, claimer, order)
        elif decision.shortage:
            claimed = self._instead(walk, claimer)
        else:
            claimed = None
        if claimed is not None and claimed.repeated:
            answer = [selections_from_json(each or "[]") for each in claimed.answers]
            walk.course.report_repeated(answer)
            return answer
        if decision.shortage and not self._is_sure(walk, claimed):
            return None
        self._finish(decision, walk.course)
        return answer

    def _decided(self, walk: _Walk, claimer: Claimer) -> tuple[Decision, Order | None, Answer]:
        """Decide, and take in the view what is about to be claimed."""
        request = replace(
            walk.request,
            spec=with_members(walk.request.spec, walk.identity.uuids, claimer.members),
            # Who draws the same again meets the same competitors.
            seed=walk.request.seed + walk.course.conflicts,
            choices=claimer.width.choices,
        )
        with self._hosts(request.spec, walk.fresh) as hosts:
            walk.course.view_age, walk.contested = self.view.age, bool(self.view.reserved)
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

    def _hold(self, walk: _Walk, claimer: Claimer, order: Order) -> Claimed:
        """Claim what was decided; raises what Claimer.claim() does."""
        reserved = {each.node_id for each in order.claims if not each.alternate}
        doubtful: set[int] = reserved
        try:
            claimed = claimer.claim(order, walk.deadline.left)
            doubtful = reserved if claimed.repeated else {*claimed.left, *order.documents}
            return claimed
        except ClaimLost as lost:
            doubtful = reserved | set(lost.nodes)
            raise
        finally:
            # Nothing of what was reserved may stay, also where nobody knows what has happened.
            self.view.distrust(doubtful)
            self.view.settled(reserved)

    def _instead(self, walk: _Walk, claimer: Claimer) -> Claimed | None:
        """Return what the same request was answered before, if there is no host for it now.

        What another request holds for the instances is in this one's way, and void with it.
        """
        identity = walk.identity
        if len(identity.uuids) < len(walk.request.instance_uuids):
            return None
        return claimer.make_way(identity, walk.deadline.left)

    def _is_sure(self, walk: _Walk, claimed: Claimed | None) -> bool:
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

    def _finish(self, decision: Decision, course: Course) -> None:
        """Say what was decided; raises NoValidHost where it is that there is no host."""
        self._complaints.say(decision.warnings)
        course.report(decision)
        if decision.shortage:
            raise NoValidHost(decision.shortage.reason)

    @contextmanager
    def _hosts(self, spec: RequestSpec, fresh: bool = False) -> Iterator[HostTable]:
        """Yield the table, locked, with the levels of trust if the request needs them.

        fresh asks for what was committed until now, however old the driver lets the view be.
        """
        driver = self.driver
        max_age = driver.view_max_age
        # Asked before the table is locked: the service may take its time.
        levels = levels_for(
            spec, driver.plan, self.attestation, lambda: self.view.nodenames(max_age)
        )
        with self.view.current(max_age, fresh) as hosts:
            if levels is not None:
                self.view.set_trust(levels)
            yield hosts
