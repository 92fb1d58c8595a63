# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.hosts.row_index; see also test_table."""

from scheduler.hosts.row_index import RowIndex


def some_names():
    names = RowIndex()
    for row, (host, node) in enumerate([("a", "n1"), ("A", "n1"), ("a", "n2"), ("b", "n1")]):
        names.add(row, host, node)
    return names


def test_rows_are_found_by_the_names_of_hosts_and_nodes():
    names = some_names()
    assert len(names) == len(names.rows()) == 4
    assert (names.row_of("A", "n1"), names.row_of("B", "n1")) == (1, None)
    assert [names.rows_of(host) for host in ("a", "A", "b", "B")] == [(0, 2), (1,), (3,), ()]
    assert sorted(names.rows_of("a", any_case=True)) == [0, 1, 2]
    assert names.rows_of("c", any_case=True) == ()
    assert names.rows_of_each(["b", "a", "gone", "b"]) == [3, 0, 2, 3]


def test_what_is_removed_is_found_no_longer():
    names = some_names()
    assert not names.has_one_node_per_host
    names.remove("a", "n1")
    assert names.has_one_node_per_host
    assert names.rows_of("A", any_case=True) == (1, 2) or names.rows_of("a", True) == (2, 1)
    names.remove("A", "n1")
    assert names.rows_of("A", any_case=True) == (2,)
    names.remove("a", "n2")
    assert names.rows_of("A", any_case=True) == names.rows_of("a") == ()
    assert list(names.rows()) == [3]
