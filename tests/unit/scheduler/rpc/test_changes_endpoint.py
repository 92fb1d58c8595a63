# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Pushed rows reach whoever follows them; malformed ones end in one line of the log."""

import logging

import pytest

from inventory import compute_nodes
from scheduler.rpc import changes
from scheduler.rpc.changes_endpoint import ChangesEndpoint
from tests.databases import a_node, save


class Follower:
    """Writes down what it is given."""

    def __init__(self):
        self.taken = []

    def take(self, nodes, instances):
        self.taken.append(([each.host for each in nodes], list(instances)))


@pytest.fixture
def follower():
    return Follower()


@pytest.fixture
def arguments(database):
    save(database, a_node("h1"), a_node("h2"))
    return changes.encode(database.read(compute_nodes.all_live), [])


def test_rows_are_handed_over(follower, arguments):
    ChangesEndpoint(follower).nodes_changed({}, agent="a1", of_a_later_release=1, **arguments)
    assert follower.taken == [(["h1", "h2"], [])]


@pytest.mark.parametrize(
    ("agent", "shown"), [("a1", "'a1'"), (None, "null"), ("a\nb", r"'a\nb'"), ({}, "a dict")]
)
def test_what_cannot_be_read_is_one_line_and_changes_nothing(
    follower, arguments, caplog, agent, shown
):
    arguments["nodes"][1]["vcpus"] = "many"
    with caplog.at_level(logging.INFO):
        ChangesEndpoint(follower).nodes_changed({}, agent=agent, **arguments)
    assert caplog.messages == [
        f"Refused malformed changes that {shown} pushed:"
        " nodes[1].vcpus: 'many' is not a whole number"
    ]
    assert follower.taken == []


def test_a_push_without_arguments_is_malformed(follower, caplog):
    with caplog.at_level(logging.INFO):
        ChangesEndpoint(follower).nodes_changed({})
    assert "null pushed: nodes: null is not a list" in caplog.text
    assert follower.taken == []
