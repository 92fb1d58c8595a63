# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end benchmark asks, and what it makes of what it has measured."""

import json
import subprocess
import sys
from itertools import islice
from statistics import median, quantiles
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import comparable
from benchmarks.endtoend import calls, fleet, measures, stages
from benchmarks.endtoend.callers import Load
from benchmarks.figures import ECHO, OURS, Figure
from inventory.tables import compute_nodes
from scheduler.wire.arguments import decode_select_arguments
from tests.fixtures.daemons.process import PATIENCE

SECONDS = st.lists(st.floats(0.0001, 10), min_size=2, max_size=60)


@given(SECONDS)
def test_the_values_that_are_kept_are_spread_like_the_times(times):
    kept = Figure("select", OURS, "ms", measures.spread(times))
    assert len(kept.turns) == measures.STEPS + 1
    assert kept.median == pytest.approx(median(times))
    low, _, high = quantiles(times, n=4, method="inclusive")
    assert kept.quartiles == pytest.approx((low, high))
    assert (kept.turns[0], kept.turns[-1]) == (min(times), max(times))


def test_the_figures_of_a_load():
    load = Load(0.5, [0.010, 0.020, 0.030], answered=[2, 1], placed=[20, 0], refused=1, calls=6)
    found = {each.what: each for each in measures.of_load(ECHO, load, {"hosts": 7}, 0.012)}
    assert found["select"].median == pytest.approx(20)
    assert found["select"].facts == {"calls": 3}
    assert found["select, p99"].median == pytest.approx(29.8)
    assert list(found["select, rate"].turns) == [4, 2]
    assert list(found["placements"].turns) == [40, 0]
    assert found["placements"].facts == {"refused": 1}
    assert found["select, processor"].median == pytest.approx(2)
    assert {each.who for each in found.values()} == {ECHO}
    assert all(each.case == {"hosts": 7} for each in found.values())


@pytest.mark.parametrize("instances", [1, 10])
def test_every_plain_call_is_another_request(instances):
    one, other = islice(calls.plain(instances), 2)
    asked = decode_select_arguments(one["args"])
    assert asked.spec.num_instances == len(asked.instance_uuids) == instances
    assert asked.spec.instance_uuid == asked.instance_uuids[0]
    assert asked.return_alternates
    assert not {*asked.instance_uuids} & {*other["args"]["instance_uuids"]}
    assert calls.context_of(one)["request_id"] != calls.context_of(other)["request_id"]


def test_the_members_of_a_group_are_asked_for_one_after_the_other():
    found = [*islice(calls.grouped(), calls.GROUPS * calls.MEMBERS)]
    asked = [decode_select_arguments(each["args"]) for each in found]
    assert {each.spec.instance_group.policy for each in asked} == {"anti-affinity"}
    for group in range(calls.GROUPS):
        same = asked[group :: calls.GROUPS]
        assert len({each.spec.instance_group.uuid for each in same}) == 1
        uuids = [each.instance_uuids[0] for each in same]
        assert uuids == same[0].spec.instance_group.members


def test_the_rows_are_those_of_the_fleet_beside_nova():
    (host,) = comparable.a_fleet(1)
    row = fleet.a_node(host)
    assert row.keys() <= {*compute_nodes.columns.keys()}
    assert row["memory_mb"] - row["memory_mb_used"] == row["free_ram_mb"] == host["free_ram_mb"]
    assert 1024 * row["local_gb"] - row["disk_mb_used"] == row["free_disk_mb"]
    assert json.loads(row["supported_instances"]) == comparable.SUPPORTED


def test_a_stage_does_not_count_what_stages_in_it_count(monkeypatch):
    watched = stages.Stages()
    # Seconds by the clock, and of the processor.
    passed = [0.0, 0.0]
    clocks = {"perf_counter": lambda: passed[0], "thread_time": lambda: passed[1]}
    monkeypatch.setattr(stages, "time", SimpleNamespace(**clocks))

    def work(wall=3.0, cpu=2.0):
        passed[0] += wall
        passed[1] += cpu

    inner = watched.watched(work, "inner")

    def outside():
        with pytest.raises(ZeroDivisionError), watched.stage("failing"):
            raise ZeroDivisionError
        work(0.5, 0.25)
        return [inner() for _ in range(5)]

    before = watched.sums()
    with watched.stage("whole"):
        watched.watched(outside, "outer")()
    spent = stages.between(before, watched.sums())
    assert spent == {
        "inner": (5, 15.0, 10.0),
        "outer": (1, 0.5, 0.25),
        "failing": (1, 0.0, 0.0),
        "whole": (1, 0.0, 0.0),
    }
    assert stages.between(watched.sums(), watched.sums())["inner"] == (0, 0.0, 0.0)


def test_everything_that_is_profiled_is_where_it_is_looked_for():
    """In a process of its own, which it changes."""
    watch = "from benchmarks.endtoend import profiled; profiled.watch(profiled.STAGES)"
    subprocess.run([sys.executable, "-W", "ignore", "-c", watch], check=True, timeout=PATIENCE)
