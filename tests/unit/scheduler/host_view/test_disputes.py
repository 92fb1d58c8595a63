# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.host_view.disputes: what is asked about, and what is said, once each."""

import logging

import pytest

from scheduler.host_view.disputes import Disputes


@pytest.fixture
def disputes(caplog):
    caplog.set_level(logging.INFO)
    return Disputes()


def read(disputes):
    """Ask the database about all; return of which hosts that is."""
    hosts = dict(disputes.open)
    disputes.close(hosts)
    return sorted(hosts)


def test_each_difference_is_asked_about_once(disputes):
    disputes.hear("h1", ["u1"], [])
    disputes.hear("h2", [], ["u2"])
    disputes.hear("h3", [], [])
    assert read(disputes) == ["h1", "h2"]
    disputes.hear("h1", ["u1"], [])
    assert read(disputes) == []
    disputes.hear("h1", [], ["u1"])
    disputes.hear("h2", ["u1"], ["u2"])
    assert read(disputes) == ["h1", "h2"]


def test_those_that_agree_before_they_are_asked_about_are_not(disputes, caplog):
    disputes.hear("h1", ["u1"], [])
    disputes.hear("h1", [], [])
    assert read(disputes) == []
    disputes.hear("h1", ["u1"], [])
    assert read(disputes) == ["h1"]
    assert caplog.messages == []


def test_a_difference_that_changes_while_it_is_asked_about_is_asked_about_again(disputes):
    disputes.hear("h1", ["u1"], [])
    asked = dict(disputes.open)
    disputes.hear("h1", ["u2"], [])
    disputes.close(asked)
    assert read(disputes) == ["h1"]
    disputes.hear("h2", ["u2"], [])
    asked = dict(disputes.open)
    disputes.forget("h2")
    disputes.close(asked)
    assert read(disputes) == []


def test_a_host_that_insists_is_a_line_of_the_log(disputes, caplog):
    told, seen = [f"u{number}" for number in range(7)], ["v2", "v1"]
    for _ in range(2):
        disputes.hear("h1", told, seen)
    assert caplog.messages == []
    read(disputes)
    for _ in range(3):
        disputes.hear("h1", told, seen)
    assert caplog.messages == [
        "Host h1 and the database disagree about its instances: 7 that only the host tells of"
        " (u0, u1, u2, u3, u4, ...), 2 that only the database has (v1, v2)"
    ]
    disputes.hear("h1", [], [])
    disputes.hear("h1", [], [])
    assert caplog.messages[1:] == ["Host h1 and the database agree about its instances again"]


def test_another_difference_is_another_line(disputes, caplog):
    for uuid in ("u1", "u2", "u1"):
        disputes.hear("h1", [uuid], [])
        read(disputes)
        disputes.hear("h1", [uuid], [])
    assert len(caplog.messages) == 3
    disputes.hear("h1", ["u3"], [])
    disputes.hear("h1", [], [])
    assert caplog.messages[3:] == ["Host h1 and the database agree about its instances again"]


def test_nothing_is_left_when_all_is_forgotten(disputes):
    disputes.hear("h1", ["u1"], [])
    disputes.clear()
    assert read(disputes) == []
    disputes.hear("h1", ["u1"], [])
    assert read(disputes) == ["h1"]
