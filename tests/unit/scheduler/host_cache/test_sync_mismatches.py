# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.host_cache.nova_casts: what is asked about, and what is said, once each."""

import logging

import pytest

from scheduler.host_cache.nova_casts import SyncMismatches


@pytest.fixture
def mismatches(caplog):
    caplog.set_level(logging.INFO)
    return SyncMismatches()


def read(mismatches):
    """Ask the database about all; return of which hosts that is."""
    hosts = dict(mismatches.unread)
    mismatches.mark_read(hosts)
    return sorted(hosts)


def test_each_difference_is_asked_about_once(mismatches):
    mismatches.compare("h1", ["u1"], [])
    mismatches.compare("h2", [], ["u2"])
    mismatches.compare("h3", [], [])
    assert read(mismatches) == ["h1", "h2"]
    mismatches.compare("h1", ["u1"], [])
    assert read(mismatches) == []
    mismatches.compare("h1", [], ["u1"])
    mismatches.compare("h2", ["u1"], ["u2"])
    assert read(mismatches) == ["h1", "h2"]


def test_those_that_agree_before_they_are_asked_about_are_not(mismatches, caplog):
    mismatches.compare("h1", ["u1"], [])
    mismatches.compare("h1", [], [])
    assert read(mismatches) == []
    mismatches.compare("h1", ["u1"], [])
    assert read(mismatches) == ["h1"]
    assert caplog.messages == []


def test_a_difference_that_changes_while_it_is_asked_about_is_asked_about_again(mismatches):
    mismatches.compare("h1", ["u1"], [])
    asked = dict(mismatches.unread)
    mismatches.compare("h1", ["u2"], [])
    mismatches.mark_read(asked)
    assert read(mismatches) == ["h1"]
    mismatches.compare("h2", ["u2"], [])
    asked = dict(mismatches.unread)
    mismatches.forget("h2")
    mismatches.mark_read(asked)
    assert read(mismatches) == []


def test_a_host_that_insists_is_a_line_of_the_log(mismatches, caplog):
    told, seen = [f"u{number}" for number in range(7)], ["v2", "v1"]
    for _ in range(2):
        mismatches.compare("h1", told, seen)
    assert caplog.messages == []
    read(mismatches)
    for _ in range(3):
        mismatches.compare("h1", told, seen)
    assert caplog.messages == [
        "Host h1 and the database disagree about its instances: 7 that only the host lists"
        " (u0, u1, u2, u3, u4, ...), 2 that only the database has (v1, v2)"
    ]
    mismatches.compare("h1", [], [])
    mismatches.compare("h1", [], [])
    assert caplog.messages[1:] == ["Host h1 and the database agree about its instances again"]


def test_another_difference_is_another_line(mismatches, caplog):
    for uuid in ("u1", "u2", "u1"):
        mismatches.compare("h1", [uuid], [])
        read(mismatches)
        mismatches.compare("h1", [uuid], [])
    assert len(caplog.messages) == 3
    mismatches.compare("h1", ["u3"], [])
    mismatches.compare("h1", [], [])
    assert caplog.messages[3:] == ["Host h1 and the database agree about its instances again"]
