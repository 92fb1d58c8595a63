# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What every installed weigher keeps, whatever it prefers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stevedore import ExtensionManager

from scheduler.decision.weighing import weighed
from scheduler.plugins import WEIGHERS
from scheduler.weighers import BaseHostWeigher
from tests.contract.drawn import hosts, requests
from tests.hosts import a_table

CLASSES = {each.name: each.plugin for each in ExtensionManager(WEIGHERS)}


MADE = [pytest.param(plugin(multiplier=2.5), id=name) for name, plugin in sorted(CLASSES.items())]
each_weigher = pytest.mark.parametrize("weigher", MADE)


def totals(table, spec, weighers):
    return weighed(table, spec, weighers, np.flatnonzero(table.present))


def by_the_book(raw, minval, maxval):
    """Return behaviour reference 2.1; a host without a figure is no better than the lowest."""
    known = [each for each in raw if np.isfinite(each)]
    if not known:
        return [0.0] * len(raw)
    lowest = min(known) if minval is None else minval
    raw = [each if np.isfinite(each) else lowest for each in raw]
    raw = [each if minval is None else max(each, minval) for each in raw]
    raw = [each if maxval is None else min(each, maxval) for each in raw]
    low = min(raw) if minval is None else minval
    high = max(raw) if maxval is None else maxval
    return [0.0 if low == high else (each - low) / (high - low) for each in raw]


def test_the_default_weighers_are_among_them():
    assert {"RAMWeigher", "CPUWeigher", "DiskWeigher", "IoOpsWeigher"} <= CLASSES.keys()
    for name, plugin in CLASSES.items():
        assert issubclass(plugin, BaseHostWeigher)
        assert plugin().name == name
        assert plugin.__doc__.startswith("Prefer ")


@each_weigher
@settings(max_examples=40)
@given(hosts(), requests())
def test_all_hosts_at_once_weigh_what_each_weighs_by_itself(weigher, each, spec):
    table = a_table(*each)
    raw = weigher.weigh(table, spec)
    assert raw.shape == (table.size,)
    alone = [weigher._weigh_object(host, spec) for host in each]
    assert raw.tolist() == pytest.approx(alone, nan_ok=True)


@each_weigher
@settings(max_examples=40)
@given(hosts(least=2), requests())
def test_the_share_is_the_formula_of_the_reference(weigher, each, spec):
    table = a_table(*each)
    found, shares = totals(table, spec, [weigher])
    raw = [float(weigher._weigh_object(host, spec)) for host in each]
    scaled = by_the_book(raw, weigher.minval, weigher.maxval)
    multipliers = [weigher.weight_multiplier(host) for host in each]
    expected = [one * other for one, other in zip(multipliers, scaled, strict=True)]
    assert found.tolist() == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert weigher.name not in shares or shares[weigher.name].tolist() == found.tolist()


@settings(max_examples=40)
@given(hosts(least=2), requests())
def test_the_sum_of_all_is_a_number_for_every_host(each, spec):
    table = a_table(*each)
    weighers = [plugin(multiplier=1.0) for _, plugin in sorted(CLASSES.items())]
    found, shares = totals(table, spec, weighers)
    assert np.isfinite(found).all()
    sums = sum(shares.values(), np.zeros(len(each)))
    assert found.tolist() == pytest.approx(sums.tolist())


@settings(max_examples=40)
@given(hosts(least=2), requests())
def test_a_multiplier_of_0_means_not_asked(each, spec):
    table = a_table(*each)
    for row in table.rows():
        table.set(row, "aggregates", None)
    for _, plugin in sorted(CLASSES.items()):

        class Untouchable(plugin):
            def weigh(self, hosts, spec):
                raise AssertionError("asked")

        found, shares = totals(table, spec, [Untouchable(multiplier=0.0)])
        assert found.tolist() == [0.0] * len(each)
        assert shares == {}


@settings(max_examples=40)
@given(hosts(least=2), requests(), st.permutations(sorted(CLASSES)))
def test_the_order_of_weighers_does_not_matter(each, spec, names):
    table = a_table(*each)
    one = totals(table, spec, [CLASSES[name](multiplier=1.5) for name in sorted(CLASSES)])[0]
    other = totals(table, spec, [CLASSES[name](multiplier=1.5) for name in names])[0]
    assert one.tolist() == pytest.approx(other.tolist())
