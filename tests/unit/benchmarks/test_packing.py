# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of benchmarks.packing: what doc/source/admin/alignment.rst says, on small fleets."""

import sys
from itertools import islice
from statistics import median

import pytest

from benchmarks import packing
from benchmarks.packing import FLEETS, STRATEGIES, Packed, filled, line, main

BOTH_BIND, RAM_BINDS, AMPLE_DISK = FLEETS
SIZE, SEEDS = 30, range(4)


def use(fleet, strategy):
    """Return the median shares of vCPUs and memory that are in use at the first refusal."""
    runs = [filled(fleet, STRATEGIES[strategy], SIZE, seed) for seed in SEEDS]
    return median(each.vcpus for each in runs), median(each.ram for each in runs)


@pytest.mark.parametrize("strategy", ["alignment", "alignment + stack"])
def test_alignment_packs_better_than_stacking_where_cpu_and_ram_both_bind(strategy):
    aligned, stacked = use(BOTH_BIND, strategy), use(BOTH_BIND, "stack by RAM")
    assert aligned[0] > stacked[0] + 0.03
    assert aligned[1] > stacked[1] + 0.03


@pytest.mark.parametrize("strategy", ["alignment", "alignment + stack"])
@pytest.mark.parametrize("fleet", [RAM_BINDS, AMPLE_DISK])
def test_it_packs_worse_where_one_binds_or_another_resource_is_ample(fleet, strategy):
    aligned, stacked = use(fleet, strategy), use(fleet, "stack by RAM")
    assert aligned[0] < stacked[0]
    assert aligned[1] < stacked[1] - 0.02


def test_flavors_of_the_hosts_own_shape_are_stacked_either_way():
    fleet = packing.Fleet("all alike in shape", ((1, 4), (2, 8), (4, 16), (8, 32)))
    assert use(fleet, "alignment") == pytest.approx(use(fleet, "stack by RAM"), abs=0.005)


def test_spreading_leaves_no_host_empty_and_stacking_half_of_them():
    assert filled(BOTH_BIND, STRATEGIES["spread"], SIZE, seed=1).still_empty == 0
    assert filled(RAM_BINDS, STRATEGIES["stack by RAM"], SIZE, seed=1).still_empty > 0.4


def test_a_seed_gives_the_same_requests_and_another_seed_others():
    def first(seed):
        return [each.spec.flavor for each in islice(BOTH_BIND.requests(seed), 20)]

    assert first(1) == first(1) != first(2)
    assert filled(RAM_BINDS, STRATEGIES["alignment"], 5, 3) == filled(
        RAM_BINDS, STRATEGIES["alignment"], 5, 3
    )


def test_a_host_that_takes_nothing_is_empty():
    giant = packing.Fleet("giant", ((65, 1),))
    assert filled(giant, STRATEGIES["spread"], 2, seed=1) == Packed(0.0, 0.0, 1.0)


def test_the_table(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["packing", "--hosts", "2", "--seeds", "2"])
    main()
    title, heads, *lines = capsys.readouterr().out.splitlines()
    assert title == "2 hosts of 64 vCPUs and 256 GB, 2 runs of each, %"
    assert " ".join(heads.split()) == (
        "fleet weighers vCPUs in use memory in use empty at half load"
    )
    assert len(lines) == len(FLEETS) * len(STRATEGIES)
    runs = [Packed(0.5, 0.25, 0.0), Packed(1.0, 0.75, 0.5), Packed(0.9, 0.5, 0.25)]
    assert line("RAM", "stack", runs).endswith(
        "  90.0 (50.0 to 100.0)  50.0 (25.0 to 75.0)  25.0 ( 0.0 to 50.0)"
    )
