# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.numa.cells."""

from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st

from inventory.numa.cells import with_usage
from inventory.numa.fit import fitted
from tests.numa import (
    a_cell,
    a_cell_with_threads,
    a_guest,
    a_guest_cell,
    a_pinned_cell,
    a_room,
    a_topology,
    needs,
    pages,
)
from tests.numa_drawn import guests, rooms


def test_a_floating_guest_takes_shares_memory_and_pages():
    # The example of the compute hosts' usage rules.
    host = a_topology(a_cell(0, 4, mempages=[pages(4, 100), pages(2048, 4096)]), a_cell(1))
    used = with_usage(host, a_guest(a_guest_cell(0, pagesize=2048)))
    cell, other = used.cells
    assert (cell.cpu_usage, cell.memory_usage) == (2, 2048)
    assert [each.used for each in cell.mempages] == [0, 1024]
    assert cell.pinned_cpus == set()
    assert other == a_cell(1)
    assert host == a_topology(a_cell(0, 4, mempages=[pages(4, 100), pages(2048, 4096)]), a_cell(1))


def test_who_asks_for_no_page_size_takes_the_smallest():
    host = a_topology(a_cell(mempages=[pages(2048, 4096), pages(4, 262144, used=1)]))
    used = with_usage(host, a_guest(a_guest_cell(memory=512)))
    assert [each.used for each in used.cells[0].mempages] == [0, 131073]


def test_a_host_without_pages_counts_all_the_rest():
    # Nova fails here and counts nothing.
    used = with_usage(a_topology(a_cell(0)), a_guest(a_guest_cell()))
    assert (used.cells[0].cpu_usage, used.cells[0].memory_usage) == (2, 2048)
    assert used.cells[0].mempages == []


def test_pinned_cpus_and_those_of_emulator_threads_are_taken():
    room = a_room(a_cell(0, pinned_cpus={7}), a_cell(1))
    guest = fitted(room, needs(a_pinned_cell(0), a_pinned_cell(1), emulator="isolate"))
    used = with_usage(room.topology, guest)
    assert [cell.pinned_cpus for cell in used.cells] == [{0, 1, 2, 7}, {8, 9}]
    assert [cell.cpu_usage for cell in used.cells] == [0, 0]
    assert room.topology.cells[0].pinned_cpus == {7}


def test_an_isolated_guest_takes_the_siblings_too():
    room = a_room(a_cell_with_threads())
    guest = fitted(room, needs(a_pinned_cell(cpu_thread_policy="isolate"), emulator="isolate"))
    used = with_usage(room.topology, guest)
    assert used.cells[0].pinned_cpus == {0, 1, 2, 4, 5, 6}
    assert with_usage(used, guest, -1) == room.topology


def test_nothing_falls_below_zero():
    host = a_topology(a_cell(0, mempages=[pages(4, 100, used=3)], pinned_cpus={5}))
    guest = a_guest(a_guest_cell(0, cpu_pinning={0: 1}, policy="mixed"))
    used = with_usage(host, guest, -1)
    cell = used.cells[0]
    assert (cell.cpu_usage, cell.memory_usage, cell.mempages[0].used) == (0, 0, 0)
    assert cell.pinned_cpus == {5}


def test_cells_that_the_host_does_not_have_are_not_counted():
    host = a_topology()
    assert with_usage(host, a_guest(a_guest_cell(9))) == host


@given(rooms(), guests(), st.booleans())
def test_a_guest_that_comes_and_goes_leaves_what_was_there(room, guest, packing):
    before = deepcopy(room.topology)
    there = fitted(room, guest, packing)
    if there is None:
        return
    used = with_usage(room.topology, there)
    assert room.topology == before
    assert with_usage(used, there, -1) == room.topology
    ids = {cell.id for cell in there.cells}
    for old, new in zip(room.topology.cells, used.cells, strict=True):
        assert (old.id in ids) == (old is not new)
