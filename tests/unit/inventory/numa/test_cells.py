# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.numa.cells."""

import math

import pytest

from inventory.numa.cells import Ratios, placed, shortage
from inventory.numa.pinning import FreeCpus
from tests.numa import a_cell, a_cell_with_threads, a_guest_cell, a_pinned_cell, pages

ORDINARY = Ratios(4.0, 1.0)


def a_mixed_cell(floating=2, pinned=2, **changes):
    pcpuset = set(range(floating, floating + pinned))
    return a_guest_cell(cpus=floating, pcpuset=pcpuset, policy="mixed", **changes)


@pytest.mark.parametrize(
    ("cell", "guest", "ratios", "lack"),
    [
        (a_cell(cpu_usage=30), a_guest_cell(), ORDINARY, None),
        (a_cell(cpu_usage=31), a_guest_cell(), ORDINARY, "needs 2 CPUs, 1 left of 8 x 4"),
        (a_cell(), a_guest_cell(cpus=9), Ratios(16.0, 1.0), "needs 9 CPUs, the cell has only 8"),
        (a_cell(memory_usage=7168), a_guest_cell(memory=1024), ORDINARY, None),
        (
            a_cell(memory_usage=7169),
            a_guest_cell(memory=1024),
            ORDINARY,
            "needs 1024 MB, 1023 left of 8192 x 1",
        ),
        (a_cell(memory_usage=8192), a_guest_cell(memory=4096), Ratios(4.0, 1.5), None),
        (
            a_cell(),
            a_guest_cell(memory=8193),
            Ratios(4.0, 4.0),
            "needs 8193 MB, the cell has only 8192",
        ),
        (
            a_cell(),
            a_guest_cell(),
            Ratios(math.nan, 1.0),
            "needs 2 CPUs, and the over-commit ratio of the 8 is not known",
        ),
        (
            a_cell(),
            a_guest_cell(),
            Ratios(1.0, math.nan),
            "needs 2048 MB, and the over-commit ratio of the 8192 is not known",
        ),
        (a_cell(pinned_cpus={0, 1}), a_pinned_cell(cpus=6), ORDINARY, None),
        (
            a_cell(pinned_cpus={0, 1}),
            a_pinned_cell(cpus=7),
            ORDINARY,
            "needs 7 CPUs to pin, 6 free of 8",
        ),
        (
            a_cell(memory_usage=8000),
            a_pinned_cell(memory=512),
            Ratios(4.0, 4.0),
            "needs 512 MB, 192 free of 8192",
        ),
        # What has a CPU of its own does not care how many guests share the others.
        (a_cell(cpu_usage=999), a_pinned_cell(), Ratios(math.nan, math.nan), None),
        (a_cell(mempages=[pages(4, 1572864)]), a_guest_cell(memory=6144), Ratios(4.0, 2.0), None),
        (
            a_cell(mempages=[pages(4, 1572864)]),
            a_guest_cell(memory=6145),
            Ratios(4.0, 2.0),
            "needs 6145 MB in whole pages, usable are 1572864 of 4 KB",
        ),
        (a_cell(pinned_cpus={0, 1, 2, 3, 4, 5}, cpu_usage=30), a_mixed_cell(), ORDINARY, None),
        (
            a_cell(pinned_cpus={0, 1, 2, 3, 4, 5, 6}),
            a_mixed_cell(),
            ORDINARY,
            "needs 2 CPUs to pin, 1 free of 8",
        ),
        (a_cell(cpu_usage=31), a_mixed_cell(), ORDINARY, "needs 2 CPUs, 1 left of 8 x 4"),
        (
            a_cell(memory_usage=7000),
            a_mixed_cell(),
            Ratios(4.0, 2.0),
            "needs 2048 MB, 1192 free of 8192",
        ),
        (
            a_cell(memory_usage=7000),
            a_mixed_cell(),
            ORDINARY,
            "needs 2048 MB, 1192 left of 8192 x 1",
        ),
    ],
)
def test_what_one_cell_has_for_another(cell, guest, ratios, lack):
    assert shortage(FreeCpus(cell), guest, ratios) == lack


def test_emulator_threads_count_with_pinned_guests_only():
    cell = a_cell(pinned_cpus={0, 1})
    assert shortage(FreeCpus(cell), a_pinned_cell(cpus=6), ORDINARY, reserved=1) is not None
    assert shortage(FreeCpus(cell), a_guest_cell(cpus=8), ORDINARY, reserved=1) is None


def test_a_floating_guest_placed():
    cell = a_cell(7, mempages=[pages(2048, 2048)])
    asked = a_guest_cell(3, pagesize=-2, memory=1024, policy="shared")
    cell.mempages.append(pages(4, 100))
    got = placed(cell, asked, reserved=1)
    assert (got.id, got.memory, got.pagesize) == (7, 1024, 2048)
    assert (got.cpuset, got.pcpuset) == ({6, 7}, set())
    assert got.cpu_pinning is None
    assert got.cpuset_reserved is None
    assert (asked.id, asked.pagesize) == (3, -2)


def test_a_pinned_guest_placed():
    cell = a_cell_with_threads(1, pinned_cpus={8})
    asked = a_pinned_cell(0, 2, cpu_thread_policy="require")
    got = placed(cell, asked, reserved=1)
    assert got.cpu_pinning == {0: 9, 1: 13}
    assert got.cpuset_reserved == {12}
    assert got.pagesize is None
    assert (got.cpu_policy, got.cpu_thread_policy) == ("dedicated", "require")
    assert got.pcpuset == asked.pcpuset
    assert got.pcpuset is not asked.pcpuset
    assert placed(cell, asked).cpuset_reserved is None


def test_a_mixed_guest_placed():
    got = placed(a_cell(), a_mixed_cell())
    assert got.cpu_pinning == {2: 0, 3: 1}
    assert got.cpuset == {0, 1}
