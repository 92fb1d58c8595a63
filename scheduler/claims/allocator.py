# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tell Placement of claims: ask it about the chosen hosts, and write allocations.

A request is decided on the host cache, then Placement is asked about the chosen trees alone: not at
all if that is plain, since it says whether there is room when something is allocated. It is asked
first where a request may go only if that depends on what no host cache has, as traits do, and for
forced hosts, which no filter judges.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from threading import TIMEOUT_MAX
from typing import Any, TypeVar

from oslo_log import log

from conf.daemon.state_logger import StateLogger
from inventory.claims.types import PLACEMENT, ClaimLost
from inventory.nova.candidates import Candidates
from inventory.nova.placement import PlacementClient
from inventory.nova.placement_errors import (
    PlacementConflict,
    PlacementRefused,
    PlacementUnavailable,
)
from scheduler.cached_thread_pool import CachedThreadPool
from scheduler.claims.claimer import LEAST_SILENCE, Left, TooLate
from scheduler.claims.implied_traits import TPM_SECRETS, has_tpm
from scheduler.claims.placement_request import PlacementRequest
from scheduler.claims.placement_scope import PlacementScope
from scheduler.claims.resource_request import (
    TraitOptions,
    is_for_placement,
    is_plain,
    pins_all_cpus,
    resource_request,
)
from scheduler.objects.request_spec import RequestSpec
from scheduler.objects.selection import Answer, Selection
from scheduler.wire.errors import NoValidHost

LOG = log.getLogger(__name__)
T = TypeVar("T")
# Once Placement has refused this number of hosts, one by one, it is asked where there is room.
MAX_REFUSED = 2
# How often allocations are written that others change at the same time.
ATTEMPTS = 5
# For how many seconds requests are made again while Placement does not answer, as when it is
# restarted on a busy controller; less where they go on without it.
PATIENCE, OPTIONAL_PATIENCE = 20.0, 5.0
# Seconds between two attempts, at first and at most.
_PAUSE, _LONGEST_PAUSE = 0.2, 2.0
_ANY_NODE = PlacementScope()
# A tenant may read it.
UNKNOWN_TO_PLACEMENT = "Placement does not know what the flavor or the image requests."


class Allocator:
    """Ask Placement about hosts, and allocate there. Many threads may use it.

    Unless it is required, requests go on without allocations while Placement does not answer.
    max_candidates is how many candidates it may name when it is asked about all hosts. Of requests
    that name hosts, or others to be near or far from, it names all.
    """

    def __init__(
        self,
        client: PlacementClient,
        is_required: bool = True,
        max_candidates: int = 1000,
        traits: TraitOptions | None = None,
    ) -> None:
        self._client = client
        self._is_required = is_required
        self._patience = PATIENCE if is_required else OPTIONAL_PATIENCE
        self._max_candidates = max_candidates
        self._traits = traits or TraitOptions()
        self._threads = CachedThreadPool()
        self._state = StateLogger(LOG, "Telling Placement of claims")

    def begin(
        self, spec: RequestSpec, left: Left, scope: PlacementScope = _ANY_NODE
    ) -> PlacementRequest:
        """Return what a request asks of Placement, and where it may go if only Placement knows.

        Raises PlacementUnavailable, and NoValidHost for what Placement has never heard of.
        """
        traits = self._trait_options(spec, left)
        try:
            groups = resource_request(spec, traits)
        except ValueError as error:
            raise NoValidHost(f"{error}.") from None
        asked = PlacementRequest(
            groups,
            spec.project_id,
            spec.user_id,
            in_tree=scope.in_tree,
            limit=None if scope.is_unlimited else self._max_candidates,
            is_plain=scope.refuses_disabled and is_plain(groups),
        )
        pins_all = pins_all_cpus(spec)
        if pins_all or is_for_placement(spec, groups):
            self._ask_first(asked, left)
        elif spec.has_forced_target and scope.nodes:
            # No filter judges a forced host, so that Placement alone can refuse it.
            self._unless_away(asked, partial(self._ask_first, asked, left))
        if pins_all and not asked.offered:
            # No host counts pinned CPUs by themselves, as none did before Train.
            asked.groups = resource_request(spec, traits, pins_cpus=False)
            self._ask_first(asked, left)
        return asked

    def offer(self, asked: PlacementRequest, answer: Answer, left: Left) -> Answer:
        """Return the answer with allocation requests, without alternates that have no room.

        Raises ClaimLost if a chosen host has no room for its instances in Placement, and what
        begin() raises.
        """
        nodes = asked.missing(answer)
        if asked.is_plain:
            asked.assume(nodes)
            nodes = []
        found: list[Candidates] = []
        if nodes:
            questions = [self._about(asked, uuid) for uuid in nodes]
            found = self._unless_away(asked, lambda: self._ask(questions, left))
        if asked.is_away:
            return answer
        for uuid, candidates in zip(nodes, found, strict=True):
            asked.add(candidates, [uuid])
        offered = asked.share(answer)
        if offered is not None:
            return offered
        LOG.info(
            "Passing over hosts that have room in the host cache but not in Placement: nodes %s;"
            " 'berthmaster nova check' compares allocations with instances",
            ", ".join(sorted(asked.refused)),
        )
        if asked.offered is None and len(asked.refused) >= MAX_REFUSED:
            self._ask_first(asked, left)
        raise ClaimLost(
            (), "Placement has no room on a host where the host cache has room", PLACEMENT
        )

    def allocate(
        self,
        asked: PlacementRequest,
        answers: Mapping[str, Sequence[Selection]],
        left: Left,
        repeated: bool = False,
    ) -> None:
        """Write the allocations of all instances, or none; answers are by instance.

        What an instance has elsewhere it keeps, as in Nova: it is being evacuated from there. For a
        repeated answer only those get some that have none, since others may have moved meanwhile.
        Raises ClaimLost if there is no room any more, and PlacementUnavailable, after which nothing
        is written unless it says that it may be.
        """
        documents = {uuid: asked.document(first) for uuid, (first, *_) in answers.items()}
        wanted = {uuid: found for uuid, found in documents.items() if found}
        for _ in range(ATTEMPTS):
            if not wanted:
                return
            try:
                post = partial(self._client.post_allocations, wanted)
                self._unless_away(asked, partial(self._in_time, [post], left, True))
                return
            except PlacementRefused as error:
                LOG.info("Hosts are chosen again: %s", error)
                asked.ask_again()
                raise ClaimLost((), str(error), PLACEMENT) from None
            except PlacementConflict as conflict:
                if not conflict.is_concurrent:
                    asked.ask_again()
                    raise ClaimLost((), str(conflict), PLACEMENT) from None
            wanted = self._still_missing(wanted, left, repeated)
        raise ClaimLost((), "others change the same allocations again and again", PLACEMENT)

    def close(self) -> None:
        """Close the connections to Placement."""
        self._client.close()

    def _trait_options(self, spec: RequestSpec, left: Left) -> TraitOptions:
        """Return which traits may be asked for.

        How the secrets of TPMs are kept only computes of Nova 34 and later report.
        """
        if not has_tpm(spec):
            return self._traits
        (reported,) = self._in_time([lambda: self._client.reported_traits(TPM_SECRETS)], left)
        return replace(self._traits, tpm_secret_security=bool(reported))

    def _about(self, asked: PlacementRequest, node: str) -> Callable[[], Candidates]:
        return lambda: self._client.allocation_candidates(asked.groups, in_tree=node)

    def _ask_first(self, asked: PlacementRequest, left: Left) -> list[Candidates]:
        """Ask Placement which nodes may be chosen at all; return its answer."""

        def work() -> Candidates:
            return self._client.allocation_candidates(
                asked.groups, in_tree=asked.in_tree, limit=asked.limit
            )

        (candidates,) = found = self._ask([work], left)
        asked.only(candidates)
        return found

    def _unless_away(self, asked: PlacementRequest, work: Callable[[], list[T]]) -> list[T]:
        """Return the results of work; none while Placement is away, unless it is required."""
        problem = ""
        try:
            found = work()
        except PlacementUnavailable as error:
            if self._is_required or error.may_be_done:
                raise
            problem, found = str(error), []
        asked.is_away = bool(problem)
        # Outside of the handler, where oslo.log would add the error a second time.
        if problem:
            text = "Hosts are selected without allocations, as [claims] allocations allows: %s"
            self._state.failed(problem, text, problem)
        else:
            self._state.recovered()
        return found

    def _ask(self, questions: Sequence[Callable[[], Candidates]], left: Left) -> list[Candidates]:
        """Return the answers to all questions, asked side by side."""
        try:
            return self._in_time(questions, left)
        except PlacementRefused as error:
            LOG.error("Placement does not accept what a request asks for: %s", error)
            raise NoValidHost(UNKNOWN_TO_PLACEMENT) from None

    def _still_missing(
        self, wanted: Mapping[str, dict[str, Any]], left: Left, repeated: bool
    ) -> dict[str, dict[str, Any]]:
        """Return the documents that are not written yet, on top of what their consumers have."""
        questions = [lambda uuid=uuid: self._client.allocations_for(uuid) for uuid in wanted]
        found = {}
        for (uuid, document), now in zip(
            wanted.items(), self._in_time(questions, left), strict=True
        ):
            new = document["allocations"]
            is_there = all(
                now.resources.get(provider) == each["resources"] for provider, each in new.items()
            )
            if is_there or (repeated and now.resources):
                continue
            kept = {provider: {"resources": each} for provider, each in now.resources.items()}
            found[uuid] = document | {
                "allocations": kept | new,
                "consumer_generation": now.generation,
            }
        return found

    def _in_time(
        self, work: Sequence[Callable[[], T]], left: Left, writes: bool = False
    ) -> list[T]:
        """Return the results of all work, done side by side; raises PlacementUnavailable.

        Raises TooLate where the caller waited too shortly to tell that Placement does not answer.
        It is tried again for some seconds while Placement does not answer; what writes is tried
        until the deadline once it may have been done, for then nobody knows.
        """
        seconds = left()
        deadline = time.monotonic() + seconds
        futures = [
            self._threads.run(partial(self._persistently, each, deadline, writes)) for each in work
        ]
        found = []
        for each in futures:
            try:
                found.append(each.result(min(left(), TIMEOUT_MAX)))
            except TimeoutError:
                if not writes and seconds < LEAST_SILENCE:
                    raise TooLate() from None
                raise PlacementUnavailable(
                    "the request",
                    "no answer before the deadline of its caller",
                    "check the load of Placement, and option [placement] timeout",
                    may_be_done=writes,
                ) from None
        return found

    def _persistently(self, work: Callable[[], T], deadline: float, writes: bool) -> T:
        """Return work(), called again while Placement does not answer, at most until deadline.

        deadline is a time of the monotonic clock.
        """
        pause, may_be_done = _PAUSE, False
        until = min(deadline, time.monotonic() + self._patience)
        while True:
            try:
                return work()
            except PlacementUnavailable as error:
                may_be_done |= writes and error.may_be_done
                error.may_be_done = may_be_done
                limit = deadline if may_be_done else until
                if not error.is_transient or time.monotonic() + pause > limit:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
