# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.weighers: multipliers and the sum of all weighers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.decision.weighing import weigh_hosts
from scheduler.weighers.ram import RAMWeigher
from tests.builders import a_request
from tests.hosts import a_host, a_table, hosts_with, in_aggregates
from tests.plugins import Favourite, Tens

KEY = "ram_weight_multiplier"
FLOATS = st.floats(-1e6, 1e6)


def weigh(table, *weighers, rows=None):
    rows = np.arange(table.size) if rows is None else np.array(rows)
    found = weigh_hosts(table, a_request(), weighers, rows)
    return found.totals.tolist(), {name: each.tolist() for name, each in found.shares().items()}


def ram_hosts(*multipliers):
    """Return hosts with 2048, 8192 and 4096 MB, the first of them in aggregates."""
    table = hosts_with("free_ram_mb", {"h1": 2048, "h2": 8192, "h3": 4096})
    table.set(0, "aggregates", in_aggregates(KEY, multipliers))
    return table


@pytest.mark.parametrize(
    ("multipliers", "expected"),
    [
        ([], [0.25, 1.0, 0.5]),
        (["5", "3"], [0.75, 1.0, 0.5]),
        (["2", "1.5"], [0.375, 1.0, 0.5]),
        # What options do not admit, metadata may.
        (["-2"], [-0.5, 1.0, 0.5]),
        (["0"], [0.0, 1.0, 0.5]),
        (["abc"], [0.25, 1.0, 0.5]),
        (["-1,2"], [0.25, 1.0, 0.5]),
        # Nova lets one bad value undo all of a host's aggregates.
        (["abc", "3"], [0.75, 1.0, 0.5]),
    ],
)
def test_aggregates_change_the_multiplier_of_their_hosts(multipliers, expected):
    table = ram_hosts(*multipliers)
    totals, shares = weigh(table, RAMWeigher())
    assert totals == pytest.approx(expected)
    assert shares == {"RAMWeigher": totals}
    bad = [text for text in multipliers if text in ("abc", "-1,2")]
    assert list(table.warnings) == [
        f"aggregate metadata {KEY} = {text!r} is not a number and is ignored" for text in bad
    ]


def test_the_multiplier_of_one_host_is_the_same_by_itself():
    table = ram_hosts("5", "3")
    weigher = RAMWeigher(multiplier=7.0)
    states = [a_host(aggregates=table.get(row, "aggregates")) for row in range(3)]
    assert [weigher.weight_multiplier(state) for state in states] == [3.0, 7.0, 7.0]
    assert weigher._weigh_object(a_host(free_ram_mb=7), a_request()) == 7.0
    assert Tens().multiplier == 1.0
    assert Favourite(multiplier=2.0).weight_multiplier(states[0]) == 2.0


def test_a_multiplier_of_0_leaves_a_weigher_out():
    out, there = Favourite(0.0), Favourite(h1=1, h2=2)
    totals, shares = weigh(hosts_with("uuid", {"h1": "a", "h2": "b"}), out, there)
    assert out.asked == []
    assert totals == [0, 1]
    assert len(shares) == 1


def test_all_multipliers_of_0_leave_a_weigher_out():
    table = hosts_with("uuid", {"h1": "a", "h2": "b"})
    for row in range(2):
        table.set(row, "aggregates", in_aggregates(KEY, ["0"]))
    assert weigh(table, RAMWeigher()) == ([0, 0], {})


@pytest.mark.parametrize("rows", [[], [1]])
def test_no_host_or_a_single_one_is_not_weighed(rows):
    raising = Favourite()
    assert weigh(hosts_with("uuid", {"h1": "a", "h2": "b"}), raising, rows=rows) == (
        [0.0] * len(rows),
        {},
    )


def test_only_hosts_that_are_left_count_for_the_scale():
    table = hosts_with("free_ram_mb", {"h1": 10**6, "h2": 10, "h3": 20})
    assert weigh(table, RAMWeigher(), rows=[1, 2])[0] == [0.5, 1.0]


def test_a_weigher_keeps_no_memory_of_earlier_requests():
    # Newton's weighers scale by the smallest and largest weight that they have ever seen.
    weigher = Favourite(h1=4, h2=2, h3=0)
    table = hosts_with("uuid", {"h1": "a", "h2": "b", "h3": "c"})
    assert weigh(table, weigher)[0] == [1.0, 0.5, 0.0]
    weigher.weights = {"h1": 2, "h2": 1, "h3": 0}
    assert weigh(table, weigher)[0] == [1.0, 0.5, 0.0]


def test_a_weigher_with_a_fixed_end_keeps_no_memory_of_earlier_requests():
    # In Newton the lower end moves to -1024 with the first request and stays there: the figures
    # are 0, 0.5, 1 and then 0.375, 0.5, 0.375.
    weigher = RAMWeigher()
    for free, expected in (
        ([-1024, 1024, 3072], [0.0, 1 / 3, 1.0]),
        ([512, 1024, 512], [0.5, 1.0, 0.5]),
    ):
        table = hosts_with("free_ram_mb", {f"h{i}": each for i, each in enumerate(free)})
        assert weigh(table, weigher)[0] == pytest.approx(expected)


@given(st.lists(st.tuples(FLOATS, FLOATS), min_size=2, max_size=6), FLOATS, FLOATS)
def test_totals_are_the_sum_of_the_shares(weights, first, second):
    table = a_table(*(a_host(f"h{i}") for i in range(len(weights))))

    class One(Favourite):
        pass

    class Two(Favourite):
        pass

    names = [f"h{i}" for i in range(len(weights))]
    one = One(first, **dict(zip(names, (w for w, _ in weights), strict=True)))
    two = Two(second, **dict(zip(names, (w for _, w in weights), strict=True)))
    totals, shares = weigh(table, one, two)
    sums = [sum(each) for each in zip(*shares.values(), strict=True)] or [0.0] * len(names)
    assert totals == pytest.approx(sums)
    for name, multiplier in (("One", first), ("Two", second)):
        assert all(
            min(0, multiplier) <= each <= max(0, multiplier) for each in shares.get(name, ())
        )


class Moody(Favourite):
    """A third party's weigher that raises for one host."""

    def _weigh_object(self, host_state, weight_properties):
        if host_state.host == "h2":
            raise KeyError("no h2 here")
        return super()._weigh_object(host_state, weight_properties)


def test_a_host_for_which_a_weigher_raises_comes_last_with_a_warning():
    table = hosts_with("uuid", {"h1": "a", "h2": "b", "h3": "c"})
    assert weigh(table, Moody(h1=4, h3=2))[0] == [1.0, 0.0, 0.0]
    assert "Moody puts h2" in next(iter(table.warnings))
