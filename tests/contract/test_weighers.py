# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What every installed weigher keeps, whatever it prefers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stevedore import ExtensionManager

from scheduler.decision.weighing import weigh_hosts
from scheduler.plugins import WEIGHERS
from scheduler.weighers import BaseHostWeigher
from tests.contract.drawn import hosts, requests
from tests.hosts import a_table

CLASSES = {each.name: each.plugin for each in ExtensionManager(WEIGHERS)}
# Settings without which a weigher has nothing to say; each set of them is tried.
SETTINGS = {
    "MetricsWeigher": [
        {"weight_setting": ["idle=1", "kernel=-2", "idle=0.5"]},
        {"weight_setting": ["idle=1", "membw=0"], "required": False},
        {"weight_setting": ["nonsense"]},
        {},
    ],
    "ImagePropertiesWeigher": [
        {},
        {
            "image_props_weight_setting": [
                "hw_architecture=2",
                "img_hv_type=-1",
                "=",
                "hw_vm_mode=0",
            ]
        },
    ],
}
ALL = [(name, more) for name in sorted(CLASSES) for more in SETTINGS.get(name, [{}])]


def made(multiplier):
    """Return every weigher with each set of its settings."""
    return [CLASSES[name](multiplier=multiplier, **more) for name, more in ALL]


# Drawing a fleet and a request costs far more than asking a weigher, so all are asked about each.
MADE = made(2.5)
CHOOSY = [each for each in MADE if type(each).applies is not BaseHostWeigher.applies]


def totals(table, spec, weighers):
    found = weigh_hosts(table, spec, weighers, np.flatnonzero(table.present))
    return found.totals, found.shares()


def by_the_book(raw, minval, maxval):
    """Return behaviour reference 2.1; None for a host without a figure."""
    known = [each for each in raw if np.isfinite(each)]
    if not known:
        return [None] * len(raw)
    known = [each if minval is None else max(each, minval) for each in known]
    known = [each if maxval is None else min(each, maxval) for each in known]
    low = min(known) if minval is None else minval
    high = max(known) if maxval is None else maxval
    found = iter([0.0 if low == high else (each - low) / (high - low) for each in known])
    return [next(found) if np.isfinite(each) else None for each in raw]


def shares_by_the_book(weigher, hosts, spec):
    """Return what each host gets of its total from a weigher, from one host after the other."""
    multipliers = [weigher.weight_multiplier(host) for host in hosts]
    if not any(multipliers):
        return [0.0] * len(hosts)
    raw = [float(weigher._weigh_object(host, spec)) for host in hosts]
    if weigher.scales:
        raw = by_the_book(raw, weigher.minval, weigher.maxval)
        # The worst that a host could get, whichever sign the multiplier has.
        return [
            min(0.0, one) if other is None else one * other
            for one, other in zip(multipliers, raw, strict=True)
        ]
    shares = [one * other for one, other in zip(multipliers, raw, strict=True)]
    worst = min([0.0, *filter(np.isfinite, shares)])
    return [each if np.isfinite(each) else worst for each in shares]


def test_the_default_weighers_are_among_them():
    assert {"RAMWeigher", "CPUWeigher", "DiskWeigher", "IoOpsWeigher"} <= CLASSES.keys()
    for name, plugin in CLASSES.items():
        assert issubclass(plugin, BaseHostWeigher)
        assert plugin().name == name
        assert plugin.__doc__.startswith("Prefer ")


@given(hosts(), requests())
def test_all_hosts_at_once_weigh_what_each_weighs_by_itself(each, spec):
    table = a_table(*each)
    for weigher in MADE:
        raw = weigher.weigh(table, spec)
        assert raw.shape == (table.size,), weigher.name
        alone = [weigher._weigh_object(host, spec) for host in each]
        assert raw.tolist() == pytest.approx(alone, nan_ok=True), weigher.name


@given(hosts(least=2), requests())
def test_the_share_is_the_formula_of_the_reference(each, spec):
    table = a_table(*each)
    for weigher in MADE:
        found, shares = totals(table, spec, [weigher])
        expected = shares_by_the_book(weigher, each, spec)
        assert found.tolist() == pytest.approx(expected, rel=1e-9, abs=1e-9), weigher.name
        assert np.isfinite(found).all(), weigher.name
        own = shares.get(weigher.name)
        assert own is None or own.tolist() == found.tolist(), weigher.name


@given(hosts(least=2), requests())
def test_a_weigher_that_does_not_apply_has_no_share_and_would_have_none(each, spec):
    table = a_table(*each)
    for weigher in CHOOSY:
        if not weigher.applies(spec):
            found, shares = totals(table, spec, [weigher])
            assert found.tolist() == [0.0] * len(each), weigher.name
            assert shares == {}, weigher.name
            assert weigher.weigh(table, spec).tolist() == [0.0] * len(each), weigher.name


@given(hosts(least=2), requests())
def test_the_sum_of_all_is_a_number_for_every_host(each, spec):
    found, _ = totals(a_table(*each), spec, made(1.0))
    assert np.isfinite(found).all()
    shares = zip(*(shares_by_the_book(one, each, spec) for one in made(1.0)), strict=True)
    assert found.tolist() == pytest.approx([sum(some) for some in shares])


@given(hosts(least=2), requests())
def test_a_multiplier_of_0_means_not_asked(each, spec):
    table = a_table(*each)
    for row in table.rows():
        table.set(row, "aggregates", None)
    for name, more in ALL:

        class Untouchable(CLASSES[name]):
            def weigh(self, hosts, spec):
                raise AssertionError("asked")

        found, shares = totals(table, spec, [Untouchable(multiplier=0.0, **more)])
        assert found.tolist() == [0.0] * len(each)
        assert shares == {}


@given(hosts(least=2), requests(), st.permutations(made(1.5)))
def test_the_order_of_weighers_does_not_matter(each, spec, weighers):
    table = a_table(*each)
    one = totals(table, spec, made(1.5))[0]
    other = totals(table, spec, weighers)[0]
    assert one.tolist() == pytest.approx(other.tolist())
