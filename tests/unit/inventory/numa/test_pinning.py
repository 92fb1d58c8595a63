# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.numa.pinning."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.numa import pinning as numa_pinning
from inventory.numa.pinning import FreeCpus
from tests.numa import a_cell, a_cell_with_threads, a_pinned_cell

POLICIES = [None, "prefer", "require", "isolate"]
# Cores 0 and 1 are free, of core 2 the second thread, of core 3 nothing.
HALF_USED = {2, 3, 7}


def pinned(cell, guest, reserved=0):
    assert numa_pinning.shortage(FreeCpus(cell), guest, reserved) is None
    return numa_pinning.pinning(FreeCpus(cell), guest, reserved)


@pytest.mark.parametrize(
    ("policy", "cpus", "chosen"),
    [
        (None, 2, [0, 4]),
        ("prefer", 3, [0, 4, 1]),
        ("prefer", 4, [0, 4, 1, 5]),
        # There are no such cores for 5 CPUs, so they take what is left.
        ("prefer", 5, [0, 1, 4, 5, 6]),
        ("require", 2, [0, 4]),
        ("require", 4, [0, 4, 1, 5]),
        ("isolate", 2, [0, 1]),
    ],
)
def test_where_the_thread_policies_put_a_guest(policy, cpus, chosen):
    cell = a_cell_with_threads(pinned_cpus=HALF_USED)
    guest = a_pinned_cell(cpus=cpus, cpu_thread_policy=policy)
    found = pinned(cell, guest)
    assert found.cpus == dict(enumerate(chosen))
    assert found.reserved == set()


@pytest.mark.parametrize(
    ("policy", "cpus", "reserved", "lack"),
    [
        ("prefer", 6, 0, "needs 6 CPUs to pin, 5 free of 8"),
        ("prefer", 5, 1, "needs 6 CPUs to pin, 5 free of 8"),
        ("require", 5, 0, "needs 5 CPUs on threads of the same cores, 4 free in equal parts"),
        ("isolate", 3, 0, "needs 3 cores of its own, 2 free"),
        ("isolate", 2, 1, "needs 3 cores of its own, 2 free"),
    ],
)
def test_what_the_thread_policies_refuse(policy, cpus, reserved, lack):
    cell = a_cell_with_threads(pinned_cpus=HALF_USED)
    guest = a_pinned_cell(cpus=cpus, cpu_thread_policy=policy)
    assert numa_pinning.shortage(FreeCpus(cell), guest, reserved) == lack


@pytest.mark.parametrize(
    ("policy", "cpus", "reserved"),
    [
        # The thread that is alone rather than one of a free core.
        ("prefer", 2, {6}),
        ("prefer", 3, {5}),
        ("require", 4, {6}),
        ("isolate", 1, {1}),
    ],
)
def test_emulator_threads_get_a_cpu_of_their_own(policy, cpus, reserved):
    cell = a_cell_with_threads(pinned_cpus=HALF_USED)
    guest = a_pinned_cell(cpus=cpus, cpu_thread_policy=policy)
    assert pinned(cell, guest, 1).reserved == reserved


def test_all_cores_give_the_same_number_of_threads_as_on_the_compute_host():
    # Four threads of one core and two of another are six, but not six in equal parts.
    cell = a_cell(siblings=[{0, 1, 2, 3}, {4, 5, 6, 7}], pinned_cpus={6, 7})
    guest = a_pinned_cell(cpus=6, cpu_thread_policy="require")
    assert numa_pinning.shortage(FreeCpus(cell), guest, 0) == (
        "needs 6 CPUs on threads of the same cores, 4 free in equal parts"
    )
    four = a_pinned_cell(cpus=4, cpu_thread_policy="require")
    assert sorted(pinned(cell, four).cpus.values()) == [0, 1, 2, 3]


@pytest.mark.parametrize("siblings", [[], [{cpu} for cpu in range(8)]])
def test_a_host_without_threads(siblings):
    cell = a_cell(siblings=siblings, pinned_cpus={0, 1})
    two, six = a_pinned_cell(), a_pinned_cell(cpus=6)
    assert list(pinned(cell, two).cpus.values()) == [2, 3]
    assert set(pinned(cell, six).cpus.values()) == {2, 3, 4, 5, 6, 7}
    two.cpu_thread_policy = six.cpu_thread_policy = "isolate"
    assert pinned(cell, two, 1).cpus == {0: 2, 1: 3}
    assert numa_pinning.shortage(FreeCpus(cell), six, 1) == "needs 7 CPUs to pin, 6 free of 8"
    two.cpu_thread_policy = "require"
    assert numa_pinning.shortage(FreeCpus(cell), two, 0) == (
        "needs cores with several threads, but each core of the host has only one"
    )


def test_isolation_is_refused_on_threads_of_separate_sets():
    # Bug 1889633.
    cell = a_cell_with_threads(cpuset={0, 4}, pcpuset={1, 2, 3, 5, 6, 7})
    guest = a_pinned_cell(cpu_thread_policy="isolate")
    assert numa_pinning.shortage(FreeCpus(cell), guest, 0) == (
        "needs cores of its own, which threads in separate sets of CPUs do not allow"
    )
    cell.siblings = []
    assert pinned(cell, guest).cpus == {0: 1, 1: 2}


def test_single_threads_of_many_cores_are_none_of_the_same_core():
    cell = a_cell_with_threads(pinned_cpus={4, 5, 6, 7})
    guest = a_pinned_cell(cpu_thread_policy="require")
    assert numa_pinning.shortage(FreeCpus(cell), guest, 0) == (
        "needs 2 CPUs on threads of the same cores, 0 free in equal parts"
    )


def test_a_core_that_is_reported_twice_is_one_core():
    cell = a_cell(siblings=[{0, 4}, {0, 4}, {4, 5}], pinned_cpus={1, 2, 3, 6, 7})
    guest = a_pinned_cell(cpus=1, cpu_thread_policy="isolate")
    assert pinned(cell, guest).cpus == {0: 0}
    two = a_pinned_cell(cpus=2, cpu_thread_policy="isolate")
    assert numa_pinning.shortage(FreeCpus(cell), two, 0) == "needs 2 cores of its own, 1 free"
    assert pinned(cell, a_pinned_cell(cpus=3)).cpus == {0: 0, 1: 4, 2: 5}


def test_a_guest_without_pinned_cpus_needs_threads_all_the_same():
    """A cell of a mixed guest may be such a one. Compute hosts refuse it without free threads."""
    guest = a_pinned_cell(cpus=0, cpu_thread_policy="require")
    found = pinned(a_cell_with_threads(), guest, 1)
    assert (found.cpus, len(found.reserved)) == ({}, 1)
    for cell in (a_cell(), a_cell_with_threads(pinned_cpus={0, 1, 2, 3})):
        assert "threads" in str(numa_pinning.shortage(FreeCpus(cell), guest, 0))


def test_siblings_of_cpus():
    cell = a_cell_with_threads()
    assert numa_pinning.with_siblings(cell, {0, 5}) == {0, 1, 4, 5}
    assert numa_pinning.with_siblings(cell, ()) == set()
    assert numa_pinning.with_siblings(a_cell(), [3]) == {3}


CPUS = st.integers(0, 7)
CELLS = st.builds(
    a_cell,
    siblings=st.lists(st.sets(CPUS), max_size=5),
    pinned_cpus=st.sets(CPUS),
    pcpuset=st.sets(CPUS),
    cpuset=st.sets(CPUS),
)


@given(CELLS, st.integers(0, 8), st.sampled_from(POLICIES), st.integers(0, 1))
def test_who_fits_gets_free_cpus_each_once_whatever_the_host_reports(cell, cpus, policy, reserved):
    guest = a_pinned_cell(cpus=cpus, cpu_thread_policy=policy)
    if numa_pinning.shortage(FreeCpus(cell), guest, reserved) is not None:
        return
    found = numa_pinning.pinning(FreeCpus(cell), guest, reserved)
    assert list(found.cpus) == sorted(guest.pcpuset)
    chosen = [*found.cpus.values(), *found.reserved]
    assert len(set(chosen)) == len(chosen) == cpus + reserved
    assert cell.free_pcpus >= set(chosen)


@given(CELLS, st.integers(0, 8), st.integers(0, 1))
def test_without_a_thread_policy_only_the_number_of_free_cpus_counts(cell, cpus, reserved):
    lack = numa_pinning.shortage(FreeCpus(cell), a_pinned_cell(cpus=cpus), reserved)
    assert (lack is None) == (cpus + reserved <= len(cell.pcpuset - cell.pinned_cpus))


@given(st.sets(CPUS), st.integers(1, 8), st.sampled_from(["require", "isolate"]), st.integers(0, 1))
def test_the_strict_thread_policies_on_pairs_of_threads(used, cpus, policy, reserved):
    cell = a_cell_with_threads(pinned_cpus=used)
    guest = a_pinned_cell(cpus=cpus, cpu_thread_policy=policy)
    whole = [core for core in cell.siblings if not core & used]
    fits = numa_pinning.shortage(FreeCpus(cell), guest, reserved) is None
    if policy == "isolate":
        assert fits == (cpus + reserved <= len(whole))
    else:
        assert fits == (cpus <= 2 * len(whole) and cpus + reserved <= 8 - len(used))
    if not fits:
        return
    chosen = set(numa_pinning.pinning(FreeCpus(cell), guest, reserved).cpus.values())
    cores = [core for core in cell.siblings if core & chosen]
    if policy == "isolate":
        assert len(cores) == cpus
    else:
        assert len(cores) == (cpus + 1) // 2
    assert all(core in whole for core in cores)


def test_a_core_of_fewer_threads_than_others_is_none_to_be_alone_on():
    cell = a_cell(cpus=3, siblings=[{0, 1}, {2}])
    assert FreeCpus(cell).whole_cores == [0]
    assert FreeCpus(a_cell(cpus=2, siblings=[{0}])).whole_cores == [0, 1]


def test_a_cell_of_a_mixed_guest_that_pins_nothing_has_no_core_alone():
    guest = a_pinned_cell(cpus=0, cpu_thread_policy="isolate")
    assert "pins no CPU" in str(numa_pinning.shortage(FreeCpus(a_cell()), guest, 0))
