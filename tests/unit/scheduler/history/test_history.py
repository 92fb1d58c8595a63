# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A decision that is made again from what was kept is the same, to the last bit."""

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.decision.pipeline import Plan, Request, decide
from scheduler.history.serialization import (
    DecisionDocument,
    snapshots_from_bytes,
    snapshots_to_bytes,
)
from scheduler.history.tagged_json import identical
from scheduler.hosts.snapshots import SnapshotLog, restore
from tests.contract.drawn.drawn_lives import lives
from tests.contract.test_filters import RULES
from tests.contract.test_weighers import MADE
from tests.unit.scheduler.history.batches import of_bytes, to_bytes

# Those that let some hosts pass as a rule.
MILD = {
    "NUMATopologyFilter",
    "PciPassthroughFilter",
    "ComputeFilter",
    "ImagePropertiesFilter",
    "ServerGroupAntiAffinityFilter",
    "DifferentHostFilter",
    "NumInstancesFilter",
    "MetricsFilter",
}
MILD_RULES = [each for each in RULES if each.name in MILD]


@st.composite
def plans(draw):
    """Draw a plan; every second one lets hosts pass that few others would."""
    rules = draw(st.sampled_from([RULES, MILD_RULES, MILD_RULES]))
    return Plan(
        draw(st.lists(st.sampled_from(rules), max_size=4, unique=True)),
        draw(st.just(MADE) | st.lists(st.sampled_from(MADE), max_size=5, unique=True)),
        draw(st.sampled_from([1, 1, 2, 3])),
        draw(st.booleans()),
        draw(st.lists(st.sampled_from(rules), max_size=1)),
    )


@st.composite
def asked(draw, specs):
    """Draw a request for one of the specs."""
    uuids = draw(st.lists(st.sampled_from(["u1", "u2", "v1", "v2", "v3"]), min_size=1, unique=True))
    return Request(
        draw(st.sampled_from(specs)),
        uuids,
        draw(st.integers(0, 2)),
        draw(st.integers(0, 2**64)),
        draw(st.booleans()),
        draw(st.integers(1, 2)),
    )


def assert_same(found, kept, decision):
    """Check what was kept and what is decided again against the decision itself."""
    assert kept == decision
    assert replace(found, warnings=()) == replace(decision, warnings=())
    assert identical(replace(found, warnings=decision.warnings), decision)
    # A new table is looked at as a whole.
    assert {*found.warnings} >= {*decision.warnings}


SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


@settings(suppress_health_check=SLOW)
@given(lives(), plans(), st.integers(2, 5), st.data())
def test_decisions_are_the_same_when_they_are_made_again(life, plan, count, data):
    log, snapshots, records, decisions = SnapshotLog(), [], [], []
    for _ in range(count):
        life.happen()
        request = data.draw(asked(life.specs))
        decision = decide(life.table.working_copy(), request, plan)
        snapshots.append(log.take(life.table))
        records.append(to_bytes(DecisionDocument(request, decision)))
        decisions.append(decision)
    cut = data.draw(st.integers(0, count))
    batches = [snapshots_to_bytes(snapshots[:cut]), snapshots_to_bytes(snapshots[cut:])]
    decoded = [each for batch in batches for each in snapshots_from_bytes(batch)]
    for number, (kept, decision) in enumerate(zip(records, decisions, strict=True)):
        record = of_bytes(kept)
        hosts = restore(decoded[: number + 1])
        found = decide(hosts.working_copy(), record.request, plan)
        assert_same(found, record.decision, decision)
