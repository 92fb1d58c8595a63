# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Plug-ins that judge a host by its row alone: asked about some rows, they say the same."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.decision.pipeline import Plan, Request, decide
from scheduler.decision.plugin_calls import is_row_local
from scheduler.hosts.row_index import count_members
from tests.builders import a_request
from tests.contract.drawn import hosts, requests
from tests.contract.test_filters import RULES
from tests.contract.test_weighers import MADE
from tests.hosts import a_table

FILTERS = [each for each in RULES if vars(type(each)).get("row_local")]
WEIGHERS = [each for each in MADE if vars(type(each)).get("row_local")]
SEVERAL = st.lists(requests(), min_size=1, max_size=2)


def forgetful(plugin):
    """Return the same plug-in, of a class of its own that does not say how it judges hosts."""
    other = type(type(plugin).__name__, (type(plugin),), {})()
    vars(other).update(vars(plugin))
    return other


def test_the_plugins_of_most_further_instances_judge_a_host_by_its_row():
    names = {each.name for each in (*FILTERS, *WEIGHERS)}
    assert names >= {"RamFilter", "CoreFilter", "DiskFilter", "NumInstancesFilter"}
    assert names >= {"RAMWeigher", "CPUWeigher", "DiskWeigher", "IoOpsWeigher", "PCIWeigher"}
    assert all(is_row_local(each, a_request()) for each in (*FILTERS, *WEIGHERS))
    assert not any(is_row_local(forgetful(each), a_request()) for each in (*FILTERS, *WEIGHERS))


@given(hosts(least=2), requests(), st.data())
def test_rows_by_themselves_are_judged_as_among_all(each, spec, data):
    table = a_table(*each).working_copy()
    # What further instances are asked for: one that is on no host.
    spec = spec.for_instance(None)
    if spec.instance_group is not None:
        # As in each decision: members are counted among all hosts.
        table.group_counts = count_members(table, spec.instance_group)
    every = st.sampled_from([*table.rows()])
    rows = np.array(data.draw(st.lists(every, min_size=1, max_size=4)))
    for rule in FILTERS:
        if rule.applies(spec):
            part, whole = table.part(rows), table.working_copy()
            expected = rule.mask(whole, spec)[rows].tolist()
            assert rule.mask(part, spec).tolist() == expected, rule.name
            for at, row in enumerate(rows.tolist()):
                assert part.limits.on(at) == whole.limits.on(row), rule.name
    for weigher in WEIGHERS:
        if weigher.applies(spec):
            found, all_of_them = weigher.weigh(table.part(rows), spec), weigher.weigh(table, spec)
            assert np.array_equal(found, all_of_them[rows], equal_nan=True), weigher.name


@given(hosts(least=2), SEVERAL, st.integers(1, 6), st.integers(1, 2))
def test_that_never_changes_a_decision(each, specs, count, choices):
    saying = Plan(RULES, MADE)
    forgetting = Plan([*map(forgetful, RULES)], [*map(forgetful, MADE)])
    table = a_table(*each)
    uuids = [f"new{number}" for number in range(count)]
    for spec in (*specs, specs[0]):
        request = Request(spec, uuids, alternates=2, seed=count, choices=choices)
        found = decide(table.working_copy(), request, saying)
        assert outcome(found) == outcome(decide(a_table(*each), request, forgetting))


def outcome(decision):
    """Return all of a decision but the weights that explain it, and warnings said before."""
    placements = [
        (each.instance_uuid, each.chosen, each.steps, each.alternates, each.taken)
        for each in decision.placements
    ]
    return repr((placements, decision.shortage))
