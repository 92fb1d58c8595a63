# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of amounts."""

from types import SimpleNamespace

from inventory.objects.amounts import amounts_of, covers, larger, plus, without


def test_each_resource_is_counted_by_itself():
    assert amounts_of(SimpleNamespace(vcpus=1, memory_mb=2, disk_mb=3)) == (1, 2, 3)
    assert larger((1, 5, 0), (2, 3, 0)) == (2, 5, 0)
    assert plus((1, 2, 3), (1, 1, 1), -1) == (0, 1, 2)
    assert without((4, 2, 3), (1, 3, 3)) == (3, 0, 0)


def test_a_place_covers_what_needs_no_more_of_any_resource():
    assert covers((1, 2, 3), (1, 2, 3))
    assert not covers((1, 2, 3), (1, 3, 3))
