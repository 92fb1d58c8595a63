# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.hosts.limits."""

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from scheduler.hosts.limits import Limits

NAN = float("nan")
NUMERIC = st.sampled_from(["vcpu", "memory_mb", "disk_gb"])
NUMBER = st.floats(0, 1e9)


class LimitsMachine(RuleBasedStateMachine):
    """The limits of three hosts beside three dictionaries."""

    @initialize()
    def begin(self):
        self.limits = Limits(3)
        self.model = [{}, {}, {}]

    @rule(name=NUMERIC, column=st.lists(st.none() | NUMBER, min_size=3, max_size=3))
    def assign(self, name, column):
        setattr(self.limits, name, np.array([NAN if each is None else each for each in column]))
        for limits, value in zip(self.model, column, strict=True):
            limits.pop(name, None)
            if value is not None:
                limits[name] = value

    @rule(row=st.integers(0, 2), name=NUMERIC, value=NUMBER)
    def set(self, row, name, value):
        self.limits.of(row)[name] = value
        self.model[row][name] = value

    @rule(row=st.integers(0, 2), name=st.sampled_from(["numa_topology", "of mine"]))
    def set_other(self, row, name):
        self.limits.of(row)[name] = ("anything", row)
        self.model[row][name] = ("anything", row)

    @rule(data=st.data(), row=st.integers(0, 2))
    def delete(self, data, row):
        if self.model[row]:
            name = data.draw(st.sampled_from(sorted(self.model[row])))
            del self.limits.of(row)[name]
            del self.model[row][name]

    @rule(row=st.integers(0, 2))
    def clear(self, row):
        self.limits.of(row).clear()
        self.model[row].clear()

    @invariant()
    def same(self):
        for row, model in enumerate(getattr(self, "model", [])):
            assert dict(self.limits.of(row)) == self.limits.on(row) == model
            assert len(self.limits.of(row)) == len(model)


TestLimits = LimitsMachine.TestCase
TestLimits.settings = settings(stateful_step_count=20)


def test_a_column_that_no_filter_set_is_empty():
    assert np.isnan(Limits(2).memory_mb).all()


def test_a_limit_of_one_host_does_not_change_the_column_that_was_assigned():
    limits, mine = Limits(2), np.array([1.0, 1.0])
    limits.vcpu = mine
    limits.of(0)["vcpu"] = 2.0
    del limits.of(1)["vcpu"]
    assert (limits.on(0), limits.on(1)) == ({"vcpu": 2.0}, {})
    assert mine.tolist() == [1.0, 1.0]


def test_misspelt_limits_are_refused():
    with pytest.raises(AttributeError, match="no limit is called memory"):
        Limits(1).memory = np.zeros(1)
    with pytest.raises(AttributeError, match="no limit is called memory"):
        _ = Limits(1).memory


def test_a_limit_that_is_not_set_is_no_key():
    limits = Limits(1).of(0)
    with pytest.raises(KeyError):
        _ = limits["vcpu"]
    with pytest.raises(KeyError):
        del limits["numa_topology"]
    with pytest.raises(KeyError):
        del limits["vcpu"]
    limits["vcpu"] = float("nan")
    with pytest.raises(KeyError):
        _ = limits["vcpu"]
    limits["vcpu"] = 4
    assert repr(limits) == "{'vcpu': 4.0}"


def test_a_limit_that_is_no_number_is_made_when_it_is_asked_for():
    limits, where, asked = Limits(3), np.array([True, True, False]), []

    def made(row):
        asked.append(row)
        return f"limit of {row}"

    limits.make("numa_topology", where, made)
    assert asked == []
    assert dict(limits.of(0)) == limits.on(0) == {"numa_topology": "limit of 0"}
    assert dict(limits.of(2)) == limits.on(2) == {}
    del limits.of(0)["numa_topology"]
    assert dict(limits.of(0)) == {}
    assert where.tolist() == [True, True, False]
    limits.of(1)["numa_topology"] = "another"
    assert dict(limits.of(1)) == {"numa_topology": "another"}
    assert set(asked) == {0}
