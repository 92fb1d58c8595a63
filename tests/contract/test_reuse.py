# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What plug-ins said before is used again, and never changes what comes out."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.decision.pipeline import Plan, Request, decide
from scheduler.decision.plugin_calls import is_declared, passing, raw_weights
from scheduler.hosts.columns import NUMBERS, OBJECTS
from scheduler.hosts.limits import Limits
from tests.contract.drawn import hosts, requests
from tests.contract.test_filters import RULES
from tests.contract.test_weighers import MADE
from tests.hosts import a_table

FILTERS = [each for each in RULES if is_declared(each)]
WEIGHERS = [each for each in MADE if is_declared(each)]
COLUMNS = sorted((NUMBERS | {*OBJECTS}) - {"host", "nodename", "node_id"})
SEVERAL = st.lists(requests(), min_size=1, max_size=2)


def forgetful(plugin):
    """Return the same plug-in without its declaration, which holds for its own class alone."""
    other = type(type(plugin).__name__, (type(plugin),), {})()
    vars(other).update(vars(plugin))
    return other


def test_the_plugins_that_every_decision_asks_declare_what_they_depend_on():
    names = {each.name for each in (*FILTERS, *WEIGHERS)}
    assert names >= {"RamFilter", "CoreFilter", "DiskFilter", "ImagePropertiesFilter"}
    assert names >= {"RAMWeigher", "CPUWeigher", "DiskWeigher", "IoOpsWeigher", "PCIWeigher"}
    assert not any(is_declared(forgetful(each)) for each in (*FILTERS, *WEIGHERS))


def assert_same_answers(table, spec):
    """Check every plug-in that declares anything against one that is asked about all hosts."""
    for rule in FILTERS:
        if rule.applies(spec):
            # What other filters have set is seen by some.
            table.limits = Limits(table.size)
            asked, fresh = table.working_copy(), table.working_copy()
            assert passing(table, rule, spec).tolist() == rule.mask(fresh, spec).tolist(), rule.name
            passing(asked, rule, spec)
            for row in table.rows():
                assert asked.limits.on(row) == dict(fresh.limits.of(row)), rule.name
    for weigher in WEIGHERS:
        if weigher.applies(spec):
            found, fresh = raw_weights(table, weigher, spec), weigher.weigh(table, spec)
            assert np.array_equal(found, fresh, equal_nan=True), weigher.name


def become(table, row, other):
    """Write what another host has into a row."""
    for name in COLUMNS:
        table.set(row, name, other.table.get(other.row, name))


@given(hosts(least=4), SEVERAL, st.data())
def test_answers_follow_the_rows_that_change(each, specs, data):
    *kept, other = each
    # As many again, since with few rows all are looked at again when one has changed.
    table = a_table(*kept)
    for number in range(3 * len(kept)):
        become(table, table.add(f"more{number}", "n"), kept[number % len(kept)])
    for spec in specs:
        assert_same_answers(table, spec)
    rows = data.draw(st.lists(st.sampled_from([*table.rows()]), min_size=1, max_size=2))
    copy = table.working_copy()
    for row in rows:
        become(copy, row, other)
    for spec in specs:
        assert_same_answers(copy, spec)
        # What the copy has changed is its own.
        assert_same_answers(table, spec)
    become(table, rows[0], other)
    table.remove(rows[-1])
    for spec in specs:
        assert_same_answers(table, spec)
    table.add("new", "node")
    assert_same_answers(table, specs[0])


@given(hosts(least=2), SEVERAL, st.integers(1, 6), st.integers(1, 2))
def test_reuse_never_changes_a_decision(each, specs, count, choices):
    remembering = Plan(RULES, MADE)
    forgetting = Plan([*map(forgetful, RULES)], [*map(forgetful, MADE)])
    table = a_table(*each)
    uuids = [f"new{number}" for number in range(count)]
    for spec in (*specs, specs[0]):
        request = Request(spec, uuids, alternates=2, seed=count, choices=choices)
        found = decide(table.working_copy(), request, remembering)
        assert outcome(found) == outcome(decide(a_table(*each), request, forgetting))


def outcome(decision):
    """Return all of a decision but the weights that explain it, and warnings said before."""
    placements = [
        (each.instance_uuid, each.chosen, each.steps, each.alternates, each.taken)
        for each in decision.placements
    ]
    return repr((placements, decision.shortage))
