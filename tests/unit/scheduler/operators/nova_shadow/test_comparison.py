# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How our decision and that of nova-scheduler compare."""

import pytest

from scheduler.analysis.explain import explain
from scheduler.decision.pipeline import Plan, Request
from scheduler.drivers.filter_scheduler import FakeScheduler, FilterScheduler
from scheduler.filters.compute import ComputeFilter
from scheduler.filters.ram import RamFilter
from scheduler.operators.nova_shadow.comparison import (
    Comparison,
    Kind,
    compare,
    count_deciding,
    count_kinds,
    latency,
    unknown,
)
from scheduler.weighers.cpu import CPUWeigher
from scheduler.weighers.ram import RAMWeigher
from tests.builders import a_request
from tests.hosts import a_host, a_table

WEIGHERS = (RAMWeigher(), CPUWeigher())


def explained(*hosts, **rules):
    plan = Plan((ComputeFilter(), RamFilter()), WEIGHERS, **rules)
    return explain(a_table(*hosts), Request(a_request(), ["u1"]), FilterScheduler(plan), 0)


def roomy_and_small(**rules):
    return explained(a_host("roomy"), a_host("small", free_ram_mb=4000), **rules)


def test_the_same_host():
    assert compare(roomy_and_small(), "roomy") == Comparison(
        Kind.SAME, "both chose roomy", "roomy", "roomy"
    )


def test_a_tie():
    found = compare(explained(a_host("h1"), a_host("h2")), "h2")
    if found.kind is Kind.SAME:
        found = compare(explained(a_host("h1"), a_host("h2")), "h1")
    assert found.kind is Kind.TIE
    assert "weigh the same" in found.text


def test_one_of_the_best_is_drawn():
    found = roomy_and_small(host_subset_size=2)
    (other,) = {"roomy", "small"} - {found.chosen_node}
    assert compare(found, other).kind is Kind.DRAWN
    assert "among the 2 best" in compare(found, other).text


def test_the_weigher_that_sets_them_apart_is_named_with_its_figures():
    found = compare(roomy_and_small(), "small")
    assert (found.kind, found.decided_by) == (Kind.WEIGHED, ("RAMWeigher",))
    assert "most of that is RAMWeigher: 1 against 0" in found.text


def test_the_filters_that_refuse_nova_s_host_are_named_with_their_reasons():
    found = compare(explained(a_host("h1"), a_host("full", free_ram_mb=100)), "full")
    assert (found.kind, found.decided_by) == (Kind.FILTERED, ("RamFilter",))
    assert "full, refused here: RamFilter needs 2048 MB of memory, 100 left" in found.text


def test_refused_here_only():
    found = compare(explained(a_host("full", free_ram_mb=100)), "full")
    assert (found.kind, found.decided_by) == (Kind.NO_HOST, ("RamFilter",))


def test_a_host_that_the_mirror_does_not_have():
    found = compare(explained(a_host("h1")), "new")
    assert (found.kind, found.decided_by) == (Kind.FILTERED, ("unknown host",))
    assert "new, which is not among the 1 host" in found.text


def test_refused_by_nova_only():
    found = compare(explained(a_host("h1")), None)
    assert found.kind is Kind.NOVA_NO_HOST
    assert "h1 was chosen, 1 of 1 host passes" in found.text


def test_refused_by_both():
    found = compare(explained(a_host("full", free_ram_mb=100)), None)
    assert (found.kind, found.decided_by) == (Kind.BOTH_REFUSED, ("RamFilter",))
    assert "RamFilter 1->0" in found.text


def test_a_driver_without_any_decision_is_named():
    driver = FakeScheduler(Plan((), WEIGHERS))
    found = explain(a_table(a_host("h1")), Request(a_request(), ["u1"]), driver, 0)
    assert compare(found, "h1").decided_by == ("driver",)


@pytest.mark.parametrize(
    ("seconds", "p50", "p95"),
    [([], None, None), ([3.0], 3.0, 3.0), ([float(n) for n in range(100, 0, -1)], 50.0, 95.0)],
)
def test_latency(seconds, p50, p95):
    found = latency(seconds)
    assert (found.requests, found.p50, found.p95) == (len(seconds), p50, p95)


def test_only_disagreements_count_for_filters_and_weighers():
    refused = compare(explained(a_host("full", free_ram_mb=100)), None)
    weighed = compare(roomy_and_small(), "small")
    found = [refused, weighed, weighed, unknown("why")]
    assert count_deciding(found) == {"RAMWeigher": 2}
    counts = {name: count for name, count in count_kinds(found).items() if count}
    assert counts == {"weighed": 2, "refused_by_both": 1, "unknown": 1}
