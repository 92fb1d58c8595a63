# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What every installed filter keeps, whatever its rule is."""

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from stevedore import ExtensionManager

from scheduler.decision.pipeline import Plan, filter_hosts
from scheduler.filters import BaseHostFilter
from scheduler.hosts.columns import NUMBERS, OBJECTS
from scheduler.hosts.host_state import HostState
from scheduler.plugins import FILTERS
from tests.builders import IMAGE
from tests.contract.drawn import hosts, requests
from tests.hosts import a_table
from tests.refusals import refusals

CLASSES = {each.name: each.plugin for each in ExtensionManager(FILTERS)}


# Settings without which a filter has nothing to say.
SETTINGS = {
    "MetricsFilter": {"weight_setting": ["idle=1"]},
    "IsolatedHostsFilter": {"isolated_images": [IMAGE], "isolated_hosts": ["h1", "h3"]},
    "ImagePropertiesFilter": {"default_architecture": "x86_64"},
}


def made(name):
    """Return a filter as an operator would set it up."""
    return CLASSES[name](**SETTINGS.get(name, {}))


NAMES = sorted(CLASSES)
SOME = st.lists(st.sampled_from(NAMES), min_size=2, max_size=5, unique=True)
# Drawing a fleet and a request costs far more than asking a filter, so all are asked about each.
RULES = [made(name) for name in NAMES]


def contents(table):
    """Return all that a filter could change, but for the limits, which are its to write."""
    numbers = {name: getattr(table, name).tolist() for name in NUMBERS - {"updated", "last_seen"}}
    objects = {name: [table.get(row, name) for row in range(table.size)] for name in OBJECTS}
    return repr((numbers, objects, [dict(table.instances.on(row)) for row in table.rows()]))


def test_the_default_filters_are_among_them():
    assert {"RamFilter", "CoreFilter", "DiskFilter", "ComputeFilter"} <= CLASSES.keys()
    for name, plugin in CLASSES.items():
        assert issubclass(plugin, BaseHostFilter)
        assert plugin().name == name
        assert plugin.__doc__.startswith("Keep ")


@given(hosts(), requests())
def test_a_mask_is_the_rule_for_each_host_by_itself(each, spec):
    for rule in RULES:
        table = a_table(*each)
        mask = rule.mask(table, spec) if rule.applies(spec) else np.ones(table.size, np.bool_)
        assert mask.shape == (table.size,), rule.name
        assert mask.dtype == np.bool_, rule.name
        for host in each:
            host.limits = {}
        assert mask.tolist() == [rule.host_passes(host, spec) for host in each], rule.name
        for row, host in enumerate(each):
            assert dict(HostState.of(table, row).limits) == dict(host.limits), rule.name
        # Values that mean nothing are named; that a filter failed is never among the warnings.
        assert all(text.startswith("aggregate metadata ") for text in table.warnings), rule.name


@given(hosts(), requests())
def test_a_refused_host_gets_a_reason_in_one_line(each, spec):
    for rule, host in product(RULES, each):
        if not rule.host_passes(host, spec):
            reason = rule.reason(host, spec)
            assert reason, rule.name
            assert "\n" not in reason, rule.name


@given(hosts(), requests())
def test_a_filter_changes_nothing_but_limits(each, spec):
    table = a_table(*each)
    before = contents(table)
    candidates = table.candidates.copy()
    for rule in RULES:
        rule.mask(table, spec)
        assert contents(table) == before, rule.name
        assert table.candidates.tolist() == candidates.tolist(), rule.name


@given(hosts(), requests(), st.data())
def test_no_filter_adds_a_host(each, spec, data):
    table = a_table(*each)
    chosen = data.draw(st.lists(st.booleans(), min_size=len(each), max_size=len(each)))
    candidates = np.array(chosen)
    for rule in RULES:
        left, steps = filter_hosts(table, spec, [rule], candidates)
        assert not (left & ~candidates).any(), rule.name
        assert steps[0].before == np.count_nonzero(candidates), rule.name
        assert steps[0].after == np.count_nonzero(left), rule.name


@given(hosts(), requests(), SOME, st.randoms())
def test_the_order_of_filters_does_not_change_who_is_left(each, spec, names, chance):
    everybody = np.ones(len(each), np.bool_)
    rules = [made(name) for name in names]
    one = filter_hosts(a_table(*each), spec, rules, everybody)[0]
    chance.shuffle(rules)
    other = filter_hosts(a_table(*each), spec, rules, everybody)[0]
    assert one.tolist() == other.tolist()
    # And it is who passes each of them by itself.
    alone = [all(rule.host_passes(host, spec) for rule in rules) for host in each]
    assert one.tolist() == alone


@given(hosts(), requests(), SOME)
def test_explain_has_a_reason_exactly_for_the_hosts_that_are_refused(each, spec, names):
    rules = [made(name) for name in names]
    table = a_table(*each)
    left = filter_hosts(table, spec, rules, np.ones(len(each), np.bool_))[0]
    refused = {(one.host, one.nodename) for one in refusals(table, spec, Plan(rules), most=100)}
    expected = {
        (host.host, host.nodename) for host, keep in zip(each, left, strict=True) if not keep
    }
    assert refused == expected


@given(hosts(least=2), requests())
def test_rows_that_were_given_up_do_not_disturb(each, spec):
    table = a_table(*each)
    table.remove(0)
    for rule in RULES:
        mask = rule.mask(table, spec) if rule.applies(spec) else np.ones(table.size, np.bool_)
        alone = [rule.host_passes(host, spec) for host in each[1:]]
        assert mask.tolist()[1:] == alone, rule.name
