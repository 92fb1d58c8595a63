# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of benchmarks.figures: medians and ratios."""

import pytest

from benchmarks.figures import NOVA, OURS, Figure, Ratio, ratios


def a_figure(who, *turns, what="decide", unit="ms", **case):
    return Figure(what, who, unit, turns, case)


def test_what_is_written_down_can_be_read_again():
    figure = Figure("decide", OURS, "ms", [4.0, 1.0, 2.0], {"hosts": 10}, {"same_hosts": True})
    written = figure.to_dict()
    assert (written["median"], written["quartiles"]) == (2, [1.5, 3])
    assert (written["least"], written["most"]) == (1, 4)
    assert Figure.from_dict(written) == figure
    assert a_figure(OURS, 5.0).quartiles == (5, 5)


def test_a_ratio_is_of_medians_and_its_spread_of_turns():
    ours, nova = a_figure(OURS, 1.0, 2.0, 4.0, hosts=1), a_figure(NOVA, 10.0, 8.0, 4.0, hosts=1)
    (ratio,) = ratios([ours, nova])
    assert (ratio.what, ratio.other, ratio.case) == ("decide", NOVA, {"hosts": 1})
    assert (ratio.median, ratio.turns) == (4, [10, 4, 1])
    assert ratio.to_dict()["quartiles"] == [2.5, 7]
    assert Ratio.of(a_figure(NOVA, 6.0), ours).turns == [3]


@pytest.mark.parametrize(
    "other",
    [
        a_figure(NOVA, 1.0, hosts=2),
        a_figure(NOVA, 1.0, hosts=1, unit="us"),
        a_figure(NOVA, 1.0, hosts=1, what="select"),
        a_figure(OURS, 1.0, hosts=1),
    ],
)
def test_only_the_same_is_compared(other):
    assert not list(ratios([a_figure(OURS, 1.0, hosts=1), other]))
    assert not list(ratios([a_figure(OURS, 0.0), a_figure(NOVA, 1.0)]))
