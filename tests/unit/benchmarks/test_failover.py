# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of benchmarks.failover: what each policy admits, and whether a dead rack is survived."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.failover import __main__ as failover
from benchmarks.failover import page
from benchmarks.failover.__main__ import POLICIES, Extent, by_percentage, fill
from benchmarks.failover.policies import Admitted, Slots, survives
from benchmarks.figures import Figure, find
from benchmarks.packing.fleets import FLEETS, Fleet, Size
from benchmarks.packing.placers import CONCERNED

ROOT = Path(__file__).parents[3]
HOST = Size(8, 32)
# 20 hosts, each a rack.
HALVES = Fleet("halves", (HOST,), {Size(4, 16): 1.0})
LEAVING = Fleet("leaving", (HOST,), {Size(4, 16): 1.0}, leaving=0.5)


@pytest.mark.parametrize(
    ("policy", "admitted"),
    [
        (page.SPARE, 2 * 19),
        (page.SLOTS, 2 * 19),
        # At best; each of 20 racks needs two places in others.
        (page.SHARED, 2 * 19),
        (page.OWN, 20),
    ],
)
def test_as_many_are_admitted_as_run_again_after_any_death(policy, admitted):
    running = fill(HALVES, 20, 1, POLICIES[policy])
    assert len(running) == admitted
    capacity, racks = np.array([HOST] * 20), np.arange(20)
    assert all(survives(capacity, racks, running, rack) for rack in range(20))


def test_the_largest_instance_makes_the_slots():
    policy = Slots(CONCERNED)
    policy.start([HOST] * 20, range(20), HALVES.flavors)
    small, large = Size(1, 4), HOST
    running = [policy.admit(small) for _ in range(19)]
    assert policy.admit(large) is None
    policy.end(running.pop())
    assert policy.admit(large)
    assert policy.admit(small) is None


@pytest.mark.parametrize("policy", POLICIES)
def test_instances_that_leave_give_their_room_back(policy):
    running = fill(LEAVING, 20, 1, POLICIES[policy])
    assert len(running) >= 19


def test_more_is_kept_free_by_a_larger_percentage():
    found = [len(each) for each in by_percentage(HALVES, 20, 1)]
    assert found[0] == 40
    assert [found[percent] for percent in (1, 5, 50)] == [39, 38, 20]
    assert found == sorted(found, reverse=True)


def test_an_instance_goes_to_its_standby_or_anywhere():
    capacity, racks, size = np.array([HOST] * 3), np.array([0, 1, 2]), Size(8, 32)
    assert survives(capacity, racks, [Admitted(size, 0), Admitted(size, 1)], 0)
    assert survives(capacity, racks, [Admitted(size, 0, 2), Admitted(size, 1, 2)], 1)
    assert not survives(capacity, racks, [Admitted(size, 0, 1), Admitted(size, 1)], 0)
    assert not survives(capacity, racks, [Admitted(size, row) for row in range(3)], 0)
    # Not on the rack that has died.
    assert not survives(capacity[:1], racks[:1], [Admitted(Size(1, 1), 0)], 0)


def test_what_comes_out(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(failover, "QUICK", Extent((HALVES,), 20, 2))
    written = tmp_path / "figures.json"
    arguments = ["--quick", "--json", str(written), "--page", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["failover", *arguments])
    failover.main()
    figures = [Figure.from_dict(each) for each in json.loads(written.read_text())]
    assert {each.case["policy"] for each in figures} == {*POLICIES, page.PERCENTAGE}
    shared = find(figures, page.ADMITTED, policy=page.SHARED)
    assert shared.turns == [38, 38]
    assert page.SHARED in capsys.readouterr().out
    table, plot = ((tmp_path / f"failover.{kind}").read_text() for kind in ("rst", "svg"))
    percentage = find(figures, page.ADMITTED, policy=page.PERCENTAGE)
    assert f"({percentage.facts['per cent kept free']} %)" in table
    assert all(f">{policy}<" in plot for policy in (*POLICIES, page.PERCENTAGE))


def test_the_page_says_what_its_table_shows():
    """Shared standbys come near the best, and admit far more than standbys that are not shared."""
    text = (ROOT / "benchmarks/results/failover.rst").read_text()
    rows = re.findall(r"   \* - .*\n((?:     - [\d,]+.*\n){5})", text)
    assert len(rows) == len(FLEETS)
    for row in rows:
        cells = re.findall(r"- ([\d,]+)", row)
        shared, spare, percentage, slots, own = (int(each.replace(",", "")) for each in cells)
        assert shared > 0.98 * max(spare, percentage)
        assert shared > 1.8 * own
        assert shared > 2 * slots
