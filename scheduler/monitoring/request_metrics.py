# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Metrics of finished requests; nothing that a caller sends becomes a label."""

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram

from inventory.claims.types import CAUSES
from scheduler.decision.types import Step
from scheduler.request_trace import OUTCOMES, PLACED, REFUSED, STAGES, RequestTrace

# Seconds.
BUCKETS = (
    *(0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05),
    *(0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0),
)
TOTAL = "total"
# Labels where no filter had a host to check, and of names beyond MAX_FILTERS.
NO_FILTER, OTHER = "none", "other"
MAX_FILTERS = 200


class RequestMetrics:
    """An observer that counts, in microseconds for any number of instances."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=registry)

        outcomes = counter("berthmaster_decisions", "Finished requests by outcome.", "outcome")
        seconds = Histogram(
            "berthmaster_decision_seconds",
            "Time of a request in each stage, all attempts together; total does not include the"
            " queue.",
            ["stage"],
            registry=registry,
            buckets=BUCKETS,
        )
        refusals = counter(
            "berthmaster_filter_refusals",
            "Hosts that a filter refused, for the first instance of a request and for an instance"
            " that found no host.",
            "filter",
        )
        without_host = counter(
            "berthmaster_requests_without_host",
            "Requests for which no host was left, by the filter that refused the last host.",
            "filter",
        )
        self._placed = counter(
            "berthmaster_instances_placed",
            "Instances that got a host; instances of repeated requests are not counted again.",
        )
        self._claims = counter("berthmaster_claims", "Requests whose claims were made.")
        conflicts = counter(
            "berthmaster_claim_conflicts",
            "Claims that were lost to others, by what the others have changed.",
            "cause",
        )
        self._outcomes = _Children(outcomes, *OUTCOMES)
        self._conflicts = _Children(conflicts, *CAUSES)
        self._seconds = _Children(seconds, *STAGES, TOTAL)
        self._refusals = _Children(refusals)
        self._without_host = _Children(without_host)

    def on_finished(self, trace: RequestTrace) -> None:
        self._outcomes[trace.outcome].inc()
        for stage, seconds in trace.seconds.items():
            self._seconds[stage].observe(seconds)
        self._seconds[TOTAL].observe(trace.total)
        for cause in trace.conflict_causes:
            self._conflicts[cause].inc()
        decision = trace.decision
        if decision is None:
            return
        if trace.outcome == PLACED:
            self._placed.inc(len(decision.placements))
            if "claim" in trace.seconds:
                self._claims.inc()
        if decision.placements:
            self._count_refusals(decision.placements[0].steps)
        if decision.shortage is not None:
            steps = decision.shortage.steps
            self._count_refusals(steps)
            if trace.outcome == REFUSED:
                emptied = (step.name for step in steps if step.before and not step.after)
                self._without_host[next(emptied, NO_FILTER)].inc()

    def _count_refusals(self, steps: tuple[Step, ...]) -> None:
        for step in steps:
            if step.before > step.after:
                self._refusals[step.name].inc(step.before - step.after)


class _Children(dict[str, Any]):
    """The children of a metric by the value of its only label: labels() is too slow."""

    def __init__(self, metric: Any, *values: str) -> None:
        super().__init__({value: metric.labels(value) for value in values})
        self._metric = metric

    def __missing__(self, value: str) -> Any:
        if len(self) >= MAX_FILTERS and value != OTHER:
            child = self[OTHER]
        else:
            child = self._metric.labels(value)
            self[value] = child
        return child
