# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.numa.cells."""

import pytest

from inventory.numa import cells
from inventory.numa.cells import ANY, LARGE, SMALL
from tests.numa import a_cell, a_guest, a_guest_cell, a_pinned_cell, a_topology, pages

# 1 GB in 4 KB, 1 GB in 2 MB, 2 GB in 1 GB.
THREE_SIZES = [pages(2048, 512), pages(4, 262144), pages(1048576, 2)]


@pytest.mark.parametrize(
    ("asked", "memory", "got"),
    [
        (SMALL, 1024, 4),
        (SMALL, 1025, None),
        (LARGE, 1024, 1048576),
        (LARGE, 2048, 1048576),
        (LARGE, 512, 2048),
        (LARGE, 513, None),
        (ANY, 1024, 1048576),
        (ANY, 513, 4),
        (ANY, 4096, None),
        (2048, 1024, 2048),
        (2048, 1026, None),
        (2048, 513, None),
        (16384, 512, None),
        (-4, 512, None),
    ],
)
def test_the_biggest_size_that_a_wish_allows_and_memory_fills(asked, memory, got):
    cell = a_cell(mempages=THREE_SIZES)
    guest = a_guest_cell(memory=memory, pagesize=asked)
    assert cells.page_size(cell, guest) == got
    assert (cells.memory_shortage(cell, guest) is None) == (got is not None)


def test_a_host_of_one_size_has_no_large_pages():
    cell = a_cell(mempages=[pages(4, 262144)])
    guest = a_guest_cell(memory=4, pagesize=LARGE)
    assert cells.memory_shortage(cell, guest) == (
        "needs 4 MB in whole pages of a large size, free are none"
    )


def test_pages_in_use_or_set_aside_are_not_free():
    cell = a_cell(mempages=[pages(2048, 512, used=200, reserved=12)])
    fits = a_guest_cell(memory=600, pagesize=2048)
    assert cells.memory_shortage(cell, fits) is None
    too_big = a_guest_cell(memory=602, pagesize=2048)
    assert cells.memory_shortage(cell, too_big) == (
        "needs 602 MB in whole pages of 2048 KB, free are 300 of 2048 KB"
    )


@pytest.mark.parametrize(
    ("guest", "fits"),
    [
        (a_guest_cell(memory=1024), True),
        (a_guest_cell(memory=1025), False),
        (a_guest_cell(memory=1024, policy="shared"), True),
        (a_guest_cell(memory=1000, policy="mixed"), True),
        (a_guest_cell(memory=1001, policy="mixed"), False),
        (a_pinned_cell(memory=1000), True),
        (a_pinned_cell(memory=1001), False),
    ],
)
def test_who_asks_for_no_size_gets_the_smallest_and_shares_it_unless_pinned(guest, fits):
    # 1000 of 1024 MB are free.
    cell = a_cell(mempages=[pages(2048, 512), pages(4, 262144, used=6144)])
    lack = cells.memory_shortage(cell, guest)
    assert (lack is None) == fits


def test_memory_without_a_wish_fills_whole_pages_too():
    cell = a_cell(mempages=[pages(2048, 512)])
    assert cells.memory_shortage(cell, a_guest_cell(memory=511)) == (
        "needs 511 MB in whole pages, usable are 512 of 2048 KB"
    )


@pytest.mark.parametrize(
    ("guest", "lack"),
    [
        (a_guest_cell(memory=10**6), None),
        (a_pinned_cell(memory=192), None),
        (a_pinned_cell(memory=193), "needs 193 MB, 192 free of 8192"),
        (a_guest_cell(memory=193, policy="mixed"), "needs 193 MB, 192 free of 8192"),
    ],
)
def test_a_host_without_pages_has_memory_for_pinned_guests_as_far_as_it_is_free(guest, lack):
    assert cells.memory_shortage(a_cell(memory_usage=8000), guest) == lack


def test_pages_of_no_size_are_none():
    cell = a_cell(mempages=[pages(0, 100)])
    assert cells.page_size(cell, a_guest_cell(pagesize=ANY)) is None
    assert cells.memory_shortage(cell, a_guest_cell()) is None


@pytest.mark.parametrize(("memory", "used"), [(513, 257), (0, 0)])
def test_a_broken_page_is_a_page(memory, used):
    host = a_topology(a_cell(0, mempages=[pages(2048, 512)]))
    (cell,) = cells.with_usage(host, a_guest(a_guest_cell(0, memory=memory))).cells
    assert cell.mempages == [pages(2048, 512, used=used)]
