# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The trace of a request: outcome, decision and timings, for the observers at its end.

One of these is the log: one line for each request, and each warning of a plug-in once.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Protocol

from oslo_log import log

from inventory.errors import counted
from scheduler.decision.pipeline import Request
from scheduler.decision.types import Decision
from scheduler.drivers import BaseDriver
from scheduler.hosts.snapshots import Snapshot
from scheduler.objects.selection import Answer
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import InvalidInput, NoValidHost, ServiceUnavailable

LOG = log.getLogger(__name__)

# NOTHING: the driver selects no hosts; REPEATED: answered as the same request was before;
# GIVEN_UP: every claim was lost; TOO_LATE: the deadline passed or the database did not answer.
PLACED, REFUSED, NOTHING, REPEATED = "placed", "refused", "nothing", "repeated"
GIVEN_UP, TOO_LATE, INVALID, FAILED = "given_up", "too_late", "invalid", "failed"
OUTCOMES = (PLACED, REFUSED, NOTHING, REPEATED, GIVEN_UP, TOO_LATE, INVALID, FAILED)
# Where a request spends its time: waiting to be handled, then in all its attempts together.
STAGES = ("queue", "view", "decide", "claim", "placement")
# The most different warnings that are logged in a number of seconds: a plug-in whose text differs
# for each request must not fill the disk.
MAX_WARNINGS = 1000
PERIOD = 3600.0


@dataclass(slots=True)
class RequestTrace:
    """A request from when it was received, on the monotonic clock.

    request, driver, decision and the snapshot that it was made on are those of the last attempt;
    snapshots are those of all. There are none without a snapshot log. conflicts counts lost
    claims, and conflict_causes has their causes. seconds has the stages that were reached;
    view_age, the age of the host cache, and total are seconds, too.
    """

    caller: RequestContext
    instance_uuids: Sequence[str | None]
    began: float
    outcome: str = FAILED
    request: Request | None = None
    driver: BaseDriver | None = None
    decision: Decision | None = None
    answer: Answer = field(default_factory=list)
    snapshot: Snapshot | None = None
    snapshots: list[Snapshot] = field(default_factory=list)
    conflicts: int = 0
    conflict_causes: list[str] = field(default_factory=list)
    view_age: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)
    total: float = 0.0

    def add_conflict(self, cause: str) -> None:
        """Count a lost claim."""
        self.conflicts += 1
        self.conflict_causes.append(cause)

    def finish(self, decision: Decision) -> None:
        """Record the outcome of a decision; raises NoValidHost where it is a shortage."""
        if decision.shortage:
            raise NoValidHost(decision.shortage.reason)
        self.outcome = PLACED if decision.placements else NOTHING

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time of the block to a stage."""
        began = monotonic()
        try:
            yield
        finally:
            self.add_seconds(name, monotonic() - began)

    def add_seconds(self, name: str, seconds: float) -> None:
        """Add time to a stage."""
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds


class RequestObserver(Protocol):
    """An observer of requests."""

    def on_finished(self, trace: RequestTrace) -> None:
        """Take the trace of a finished request. The answer waits for it: be quick."""


@contextmanager
def notifying(trace: RequestTrace, observers: Iterable[RequestObserver]) -> Iterator[None]:
    """Set the outcome of the request in the block and notify the observers, however it ends."""
    try:
        yield
    except NoValidHost:
        trace.outcome = GIVEN_UP if trace.outcome == GIVEN_UP else REFUSED
        raise
    except InvalidInput:
        trace.outcome = INVALID
        raise
    except ServiceUnavailable:
        trace.outcome = TOO_LATE
        raise
    finally:
        trace.total = monotonic() - trace.began
        for observer in observers:
            try:
                observer.on_finished(trace)
            # It must fail neither the request nor the other observers.
            except Exception:
                LOG.exception("%s failed on a finished request", type(observer).__name__)


class RequestLog:
    """An observer that logs each finished request."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._logged: set[str] = set()
        self._since = clock()

    def on_finished(self, trace: RequestTrace) -> None:
        """Log the new warnings of the decision and the line of the request."""
        if trace.decision is not None:
            for warning in trace.decision.warnings:
                self._warn(warning)
        # The endpoint logs the other outcomes, with the error that the caller gets.
        if trace.outcome == PLACED and trace.decision:
            placements = trace.decision.placements
            hosts = [placement.chosen.host for placement in placements]
            steps = " ".join(map(str, placements[0].steps)) or "no filters"
            LOG.info("Selected %s for %s: %s", _first(hosts), _subject(trace), steps)
        elif trace.outcome == REFUSED and trace.decision:
            LOG.info("No valid host for %s: %s", _subject(trace), _reason(trace.decision))
        elif trace.outcome == NOTHING:
            LOG.info("Selected no hosts for %s: the driver chose none", _subject(trace))
        elif trace.outcome == REPEATED:
            hosts = [selections[0].service_host for selections in trace.answer]
            text = "Selected %s for %s: the same request was answered before"
            LOG.info(text, _first(hosts), _subject(trace))
        elif trace.outcome == GIVEN_UP:
            LOG.warning(
                "No valid host for %s: others took the chosen hosts each time; more [claims]"
                " attempts or fewer requests at a time would help",
                _subject(trace),
            )

    def _warn(self, warning: str) -> None:
        """Log a warning that is new; forget the old ones after a period with too many."""
        if warning in self._logged:
            return
        if len(self._logged) >= MAX_WARNINGS:
            now = self._clock()
            if now - self._since < PERIOD:
                return
            self._logged.clear()
            self._since = now
        self._logged.add(warning)
        LOG.warning("%s", warning)
        if len(self._logged) == MAX_WARNINGS:
            LOG.warning(
                "Plug-ins gave %s different warnings: further warnings are not logged for up to"
                " %g s",
                MAX_WARNINGS,
                PERIOD,
            )


def _subject(trace: RequestTrace) -> str:
    first, count = trace.instance_uuids[0], len(trace.instance_uuids)
    instances = f"{count} instances from {first}" if count > 1 else f"instance {first}"
    conflicts = f" after {counted(trace.conflicts, 'conflict')}" if trace.conflicts else ""
    return (
        f"{instances} in {1000 * trace.total:.1f} ms{conflicts}"
        f" (host cache {trace.view_age:.1f} s old)"
    )


def _first(hosts: Sequence[str]) -> str:
    return ", ".join(hosts[:10]) + (", ..." if len(hosts) > 10 else "")


def _reason(decision: Decision) -> str:
    shortage = decision.shortage
    if not decision.hosts or shortage is None:
        return "no compute node has reported yet; check that berthmaster-agent runs on the hosts"
    hosts = counted(decision.hosts, "host")
    steps = " ".join(map(str, shortage.steps)) or "none of them usable"
    return f"instance {shortage.index + 1} found none of {hosts}: {steps}"
