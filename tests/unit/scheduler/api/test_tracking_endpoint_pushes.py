# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Pushed rows reach whoever follows them; malformed ones end in one line of the log."""

import logging

import pytest

from inventory import compute_nodes
from inventory.claims.types import NodeChange
from scheduler.api.tracking_endpoint import PushEndpoint
from scheduler.wire import claim_messages, push_messages
from tests.databases import a_node, save


class Follower:
    """Writes down what it is given."""

    def __init__(self):
        self.taken = []

    def apply_push(self, nodes, instances, claims):
        self.taken.append(([each.host for each in nodes], list(instances), list(claims)))

    def apply_changes(self, changes):
        self.taken += [(each.node_id, each.after) for each in changes]


@pytest.fixture
def follower():
    return Follower()


@pytest.fixture
def arguments(database):
    save(database, a_node("h1"), a_node("h2"))
    return push_messages.encode(push_messages.Pushed(database.read(compute_nodes.all_live), [], []))


def test_rows_are_handed_over(follower, arguments):
    PushEndpoint(follower).nodes_changed({}, agent="a1", of_a_later_release=1, **arguments)
    assert follower.taken == [(["h1", "h2"], [], [])]


@pytest.mark.parametrize(
    ("agent", "shown"), [("a1", "'a1'"), (None, "null"), ("a\nb", r"'a\nb'"), ({}, "a dict")]
)
def test_what_cannot_be_read_is_one_line_and_changes_nothing(
    follower, arguments, caplog, agent, shown
):
    arguments["nodes"][1]["vcpus"] = "many"
    with caplog.at_level(logging.INFO):
        PushEndpoint(follower).nodes_changed({}, agent=agent, **arguments)
    assert caplog.messages == [
        f"Refused malformed changes that {shown} pushed:"
        " nodes[1].vcpus: 'many' is not a whole number"
    ]
    assert follower.taken == []


def test_a_push_with_nothing_in_it_is_malformed(follower, caplog):
    with caplog.at_level(logging.INFO):
        PushEndpoint(follower).nodes_changed({}, claims=[])
    assert "null pushed: nodes: null is not a list" in caplog.text
    assert follower.taken == []


def test_what_an_agent_without_claims_pushes_is_left_to_be_read(follower, arguments, caplog):
    # It has no columns for them either.
    del arguments["claims"]
    for node in arguments["nodes"]:
        for column in ("claims", "disk_mb_used", "free_disk_mb"):
            del node[column]
    caplog.set_level(logging.DEBUG)
    PushEndpoint(follower).nodes_changed({}, agent="a1", **arguments)
    assert follower.taken == []
    assert caplog.messages == ["'a1' pushed no claims; its changes are read from the database"]
    assert caplog.records[0].levelname == "DEBUG"


def test_what_claims_have_changed_is_handed_over_unless_it_is_malformed(follower, caplog):
    caplog.set_level(logging.INFO)
    arguments = claim_messages.encode([NodeChange(3, 1, 2, 4, 5, 6, 7, 0)])
    PushEndpoint(follower).nodes_changed({}, agent="s1", of_a_later_release=1, **arguments)
    assert (follower.taken, caplog.messages) == ([(3, 2)], [])
    arguments["changes"]["nodes"]["after"] = ["soon"]
    PushEndpoint(follower).nodes_changed({}, agent="s1", **arguments)
    assert caplog.messages == [
        "Refused malformed claims that 's1' pushed:"
        " changes.nodes.after[0]: 'soon' is not a whole number"
    ]
    assert len(follower.taken) == 1
