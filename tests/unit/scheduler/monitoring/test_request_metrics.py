# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.monitoring.request_metrics: what is counted of a request that is over."""

import pytest
from prometheus_client import CollectorRegistry

from inventory.claims.types import GROUP, HOST
from scheduler.decision.types import Decision, Placement, PlacementFailure, Step
from scheduler.hosts.host_state import Candidate
from scheduler.monitoring import request_metrics
from scheduler.monitoring.request_metrics import RequestMetrics
from scheduler.request_trace import OUTCOMES, PLACED, REFUSED, STAGES, RequestTrace
from scheduler.wire.context import RequestContext

CHOSEN = Candidate(0, "h1", "h1", None, None, {}, 1.0)
STEPS = (Step("ComputeFilter", 9, 7), Step("RamFilter", 7, 7), Step("CoreFilter", 7, 4))


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def observer(registry):
    return RequestMetrics(registry)


@pytest.fixture
def value(registry):
    """Return what reads a sample."""
    return lambda name, **labels: registry.get_sample_value(f"berthmaster_{name}", labels)


def a_course(outcome=PLACED, decision=None, **changes):
    trace = RequestTrace(RequestContext(), ["u1"], 0.0, outcome, decision=decision, total=0.003)
    for name, each in changes.items():
        setattr(trace, name, each)
    return trace


def placed(*steps, instances=1):
    return Decision(tuple(Placement(None, CHOSEN, steps, ()) for _ in range(instances)))


def short(*steps, after=()):
    return Decision(after, PlacementFailure(len(after), None, steps, "There are not enough hosts"))


def test_every_outcome_and_stage_is_there_from_the_start(observer, value):
    assert [value("decisions_total", outcome=each) for each in OUTCOMES] == [0] * len(OUTCOMES)
    stages = [*STAGES, "total"]
    assert [value("decision_seconds_count", stage=each) for each in stages] == [0] * len(stages)


def test_a_placed_request_counts_with_its_stages(observer, value):
    seconds = {"queue": 0.00005, "view": 0.0, "decide": 0.0015, "claim": 0.1}
    observer.on_finished(
        a_course(
            decision=placed(*STEPS, instances=3),
            seconds=seconds,
            conflicts=3,
            conflict_causes=[HOST, GROUP, HOST],
        )
    )
    assert value("decisions_total", outcome="placed") == 1
    assert value("instances_placed_total") == 3
    assert value("claims_total") == 1
    assert value("claim_conflicts_total", cause="host") == 2
    assert value("claim_conflicts_total", cause="group") == 1
    assert value("claim_conflicts_total", cause="placement") == 0
    assert value("decision_seconds_bucket", stage="queue", le="0.0001") == 1
    assert value("decision_seconds_bucket", stage="decide", le="0.001") == 0
    assert value("decision_seconds_bucket", stage="decide", le="0.002") == 1
    assert value("decision_seconds_sum", stage="total") == 0.003


def test_only_the_first_instance_counts_for_filters(observer, value):
    observer.on_finished(a_course(decision=placed(*STEPS, instances=5)))
    assert value("filter_refusals_total", filter="ComputeFilter") == 2
    assert value("filter_refusals_total", filter="CoreFilter") == 3
    assert value("filter_refusals_total", filter="RamFilter") is None


def test_a_request_that_claims_nothing_is_no_claim(observer, value):
    observer.on_finished(a_course(decision=placed(*STEPS), seconds={"decide": 0.001}))
    assert (value("instances_placed_total"), value("claims_total")) == (1, 0)


def test_the_filter_that_took_the_last_host_is_named(observer, value):
    steps = (*STEPS, Step("DiskFilter", 4, 0), Step("LaterFilter", 0, 0))
    observer.on_finished(a_course(REFUSED, short(*steps)))
    assert value("requests_without_host_total", filter="DiskFilter") == 1
    assert value("filter_refusals_total", filter="DiskFilter") == 4
    assert value("requests_without_host_total", filter="LaterFilter") is None


def test_the_first_instance_counts_besides_the_one_without_a_host(observer, value):
    first = placed(*STEPS).placements
    observer.on_finished(a_course(REFUSED, short(Step("CoreFilter", 4, 0), after=first)))
    assert value("filter_refusals_total", filter="CoreFilter") == 3 + 4


@pytest.mark.parametrize("steps", [(), (Step("ComputeFilter", 0, 0),)])
def test_without_any_host_no_filter_is_to_blame(observer, value, steps):
    observer.on_finished(a_course(REFUSED, short(*steps)))
    assert value("requests_without_host_total", filter="none") == 1


def test_what_was_answered_before_is_not_placed_again(observer, value):
    observer.on_finished(a_course("repeated", short(*STEPS), seconds={"claim": 0.1}))
    assert value("decisions_total", outcome="repeated") == 1
    assert (value("instances_placed_total"), value("claims_total")) == (0, 0)
    assert value("requests_without_host_total", filter="none") is None


def test_a_request_that_was_not_decided_counts(observer, value):
    observer.on_finished(a_course("invalid"))
    assert value("decisions_total", outcome="invalid") == 1


def test_names_of_filters_do_not_grow_without_bound(observer, registry, value):
    many = [Step(f"Filter{number}", 1, 0) for number in range(request_metrics.MAX_FILTERS + 5)]
    for step in many:
        observer.on_finished(a_course(decision=placed(step)))
    assert value("filter_refusals_total", filter="other") == 5
    (family,) = (each for each in registry.collect() if each.name.endswith("filter_refusals"))
    totals = [each for each in family.samples if each.name.endswith("_total")]
    assert len(totals) == request_metrics.MAX_FILTERS + 1
