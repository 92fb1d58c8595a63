# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.hosts.result_cache; see also contract/test_reuse.py."""

import numpy as np
import pytest

from scheduler.decision.plugin_calls import declared
from scheduler.filters.ram import RamFilter
from scheduler.hosts import result_cache
from scheduler.hosts.result_cache import compute_incremental
from tests.builders import a_request
from tests.hosts import hosts_with

COLUMNS = ("free_ram_mb",)


@pytest.fixture
def table():
    return hosts_with("free_ram_mb", {f"h{number}": number for number in range(8)})


class Doubled:
    """Work that remembers of how many rows it was asked to do."""

    def __init__(self):
        self.rows = []

    def __call__(self, hosts):
        self.rows.append(hosts.size)
        return {"doubled": 2 * hosts.free_ram_mb}


def ask(table, work, key="key"):
    return compute_incremental(table, key, COLUMNS, work)["doubled"].tolist()


def test_only_rows_that_were_written_are_done_again(table):
    work = Doubled()
    assert ask(table, work) == ask(table, work) == [0, 2, 4, 6, 8, 10, 12, 14]
    table.set(3, "free_ram_mb", 50)
    table.set(3, "free_disk_mb", 50)
    table.set(5, "vcpus_used", 1)
    assert ask(table, work)[3] == 100
    assert work.rows == [8, 1]


def test_with_many_changes_everything_is_done_again(table):
    work = Doubled()
    ask(table, work)
    for row in range(3):
        table.set(row, "free_ram_mb", 1)
    assert ask(table, work)[:4] == [2, 2, 2, 6]
    table.fill("free_ram_mb", np.arange(8) + 1)
    assert ask(table, work)[0] == 2
    table.add("h9", "n9")
    assert len(ask(table, work)) == 9
    assert work.rows == [8, 8, 8, 9]


def test_a_copy_shares_what_it_has_not_changed_and_keeps_the_rest_to_itself(table):
    work = Doubled()
    first = table.working_copy()
    ask(first, work)
    assert ask(table, work)[0] == 0
    first.set(0, "free_ram_mb", 9)
    assert ask(first, work)[0] == 18
    first.set(0, "free_ram_mb", 10)
    assert ask(first, work)[0] == 20
    assert ask(table, work)[0] == ask(table.working_copy(), work)[0] == 0
    assert work.rows == [8, 1, 1]


def test_results_of_other_kinds_than_before_replace_them(table):
    compute_incremental(table, "key", COLUMNS, lambda hosts: {"other": hosts.free_ram_mb})
    table.set(0, "free_ram_mb", 9)
    assert ask(table, Doubled())[0] == 18


def test_nobody_can_change_what_is_remembered(table):
    found = compute_incremental(table, "key", COLUMNS, Doubled())["doubled"]
    with pytest.raises(ValueError, match="read-only"):
        found[0] = 1


def test_what_was_not_asked_for_longest_is_forgotten(table, monkeypatch):
    monkeypatch.setattr(result_cache, "MAX_BYTES", 3 * (64 + 2048))
    work = Doubled()
    for key in ("a", "b", "c", "a", "d", "a", "b"):
        ask(table, work, key)
    assert len(work.rows) == 5


def test_the_arrays_of_all_results_together_are_bounded(monkeypatch):
    table = hosts_with("free_ram_mb", dict.fromkeys(map(str, range(1000)), 1))
    # Room for two arrays of 8000 bytes and their keys, not for a third one.
    monkeypatch.setattr(result_cache, "MAX_BYTES", 24_000)
    work = Doubled()
    for key in ("a", "b", "b", "a"):
        ask(table, work, key)
    assert len(work.rows) == 2
    for key in ("c", "a", "c", "b"):
        ask(table, work, key)
    assert len(work.rows) == 4


def test_a_row_that_is_given_to_another_host_is_done_again(table):
    named = Named()
    table.remove(3)
    assert (
        compute_incremental(table, "key", ("hypervisor_version",), named)["known"].tolist()
        == [True] * 8
    )
    table.add("new", "node")
    compute_incremental(table, "key", ("hypervisor_version",), named)
    assert named.rows == [8, 1]


class Named(Doubled):
    def __call__(self, hosts):
        self.rows.append(hosts.size)
        return {"known": np.ones(hosts.size, np.bool_)}


def test_the_copy_of_a_copy_keeps_what_that_has_changed_to_itself(table):
    work = Doubled()
    ask(table, work)
    copy = table.working_copy()
    copy.set(0, "free_ram_mb", 100)
    assert ask(copy.working_copy(), work)[0] == 200
    assert ask(table, work)[0] == 0
    table.set(1, "free_ram_mb", 7)
    assert ask(table, work)[:2] == [0, 14]


def test_what_cannot_be_asked_about_a_changed_row_is_forgotten(table):
    def failing(hosts):
        hosts.warn("it failed")
        return {"doubled": np.zeros(hosts.size)}

    work = Doubled()
    ask(table, work)
    table.set(0, "free_ram_mb", 1)
    # By whom it was learnt does not matter.
    assert ask(table.working_copy(), failing)[0] == 0
    assert ask(table, work)[0] == 2
    assert work.rows == [8, 8]


class Listing(RamFilter):
    """Has a question that nothing can be remembered by."""

    def question(self, spec):
        return [spec.memory_mb]


def test_a_question_that_is_no_key_is_none():
    assert declared(Listing(), a_request()) is None
    assert declared(RamFilter(), a_request()) == ((2048,), RamFilter.reads)


def test_what_failed_is_asked_again(table):
    def failing(hosts):
        hosts.warn("it failed")
        return {"doubled": np.zeros(hosts.size)}

    assert ask(table, failing) == [0] * 8
    table.warnings.clear()
    assert ask(table, Doubled())[1] == 2


def test_results_of_another_type_replace_those_that_were_there(table):
    ask(table, Doubled())
    table.set(0, "free_ram_mb", 3)
    halves = compute_incremental(
        table, "key", COLUMNS, lambda hosts: {"doubled": hosts.free_ram_mb / 2}
    )
    assert halves["doubled"][0] == 1.5
