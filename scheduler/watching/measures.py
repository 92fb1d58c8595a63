# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Measures of requests, counted when each of them is over.

Their labels are names of outcomes, stages and filters, of which a configuration has so many:
nothing that a caller sends becomes one.
"""

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram

from scheduler.course import OUTCOMES, PLACED, REFUSED, STAGES, Course
from scheduler.decision.outcome import Decision, Step

# Seconds.
BUCKETS = (
    *(0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05),
    *(0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0),
)
TOTAL = "total"
# Where no filter had a host to look at, and where names are too many to be filters.
NO_FILTER, OTHER = "none", "other"
MOST_FILTERS = 200


class Measures:
    """A witness that counts. ended() costs microseconds, however many instances are asked for."""

    def __init__(self, registry: CollectorRegistry) -> None:
        outcomes = Counter(
            "berthmaster_decisions",
            "Requests that are over, by how they ended.",
            ["outcome"],
            registry=registry,
        )
        seconds = Histogram(
            "berthmaster_decision_seconds",
            "Time of a request by stage, all attempts taken together; total is without the queue.",
            ["stage"],
            registry=registry,
            buckets=BUCKETS,
        )
        refusals = Counter(
            "berthmaster_filter_refusals",
            "Hosts that a filter took out, for the first instance of a request and for one that"
            " found no host.",
            ["filter"],
            registry=registry,
        )
        without_host = Counter(
            "berthmaster_requests_without_host",
            "Requests for which no host was left, by the filter that took the last one.",
            ["filter"],
            registry=registry,
        )
        self._placed = Counter(
            "berthmaster_instances_placed",
            "Instances that got a host, without those of repeated requests.",
            registry=registry,
        )
        self._claims = Counter(
            "berthmaster_claims", "Claims of whole requests that held.", registry=registry
        )
        self._conflicts = Counter(
            "berthmaster_claim_conflicts",
            "Claims that were lost since others were faster.",
            registry=registry,
        )
        self._outcomes = _Children(outcomes, *OUTCOMES)
        self._seconds = _Children(seconds, *STAGES, TOTAL)
        self._refusals = _Children(refusals)
        self._without_host = _Children(without_host)

    def ended(self, course: Course) -> None:
        """Count a request that is over."""
        self._outcomes[course.outcome].inc()
        for stage, seconds in course.seconds.items():
            self._seconds[stage].observe(seconds)
        self._seconds[TOTAL].observe(course.total)
        if course.conflicts:
            self._conflicts.inc(course.conflicts)
        decision = course.decision
        if decision is None:
            return
        if course.outcome == PLACED:
            self._placed.inc(len(decision.placements))
            if "claim" in course.seconds:
                self._claims.inc()
        self._count_refusals(decision, course.outcome == REFUSED)

    def _count_refusals(self, decision: Decision, refused: bool) -> None:
        if decision.placements:
            self._count_steps(decision.placements[0].steps)
        if decision.shortage is not None:
            steps = decision.shortage.steps
            self._count_steps(steps)
            if refused:
                emptied = (step.name for step in steps if step.before and not step.after)
                self._without_host[next(emptied, NO_FILTER)].inc()

    def _count_steps(self, steps: tuple[Step, ...]) -> None:
        for step in steps:
            if step.before > step.after:
                self._refusals[step.name].inc(step.before - step.after)


class _Children(dict[str, Any]):
    """The children of a metric by the value of its only label: finding one by labels() is dear."""

    def __init__(self, metric: Any, *known: str) -> None:
        super().__init__({name: metric.labels(name) for name in known})
        self._metric = metric

    def __missing__(self, name: str) -> Any:
        # As many as no configuration has.
        known = name if len(self) < MOST_FILTERS else OTHER
        child = self[name if known == name else OTHER] = self._metric.labels(known)
        return child
