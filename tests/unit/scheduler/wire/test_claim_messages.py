# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What claims have changed survives the way to a scheduler; what is malformed is refused whole."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.claims.numa_pci_usage import NUMA
from inventory.claims.types import ALTERNATE, AddedClaim, Claim, NodeChange
from scheduler.wire import claim_messages, push_messages
from scheduler.wire.errors import InvalidInput

ABOUT = {"project_id": "p1", "flavor_id": 7, "flavor_name": "m1", "image_properties": "{}"}


def changes() -> list[NodeChange]:
    """Return the changes of two nodes: an instance with an alternate, and one of another kind."""
    claim = Claim("u1", 1, "h1", "h1", 2, 4096, 0, about={**ABOUT, "root_gb": 5, "ephemeral_gb": 6})
    mine, held = AddedClaim.of(claim), AddedClaim.of(replace(claim, alternate=True))
    other = AddedClaim.of(Claim("u2", 2, "h2", "h2", 1, 1, 0))
    return [
        NodeChange(1, 7, 9, 2, -5, -(2**40), 2**40, 1, [mine], [], {NUMA: None}),
        NodeChange(2, 3, 4, 3, 5, 6, 7, 2, [held, other], ["u3", "u2"]),
    ]


def sent(found: list[NodeChange]) -> dict[str, Any]:
    """Return what arrives at a scheduler."""
    return dict(json.loads(json.dumps(claim_messages.encode(found))))


def test_changes_arrive_as_they_were_made() -> None:
    first, second = claim_messages.decode(sent(changes()))
    assert (first.node_id, first.before, first.after, first.claims) == (1, 7, 9, 1)
    assert (first.vcpus_used, first.free_ram_mb) == (2, -5)
    assert (first.free_disk_mb, first.disk_mb_used) == (-(2**40), 2**40)
    kind = (2, 4096, 5, 6, "p1", 7, "m1", "{}")
    assert first.added == [AddedClaim("u1", None, *kind)]
    assert second.added == [
        AddedClaim("u1", ALTERNATE, *kind),
        AddedClaim("u2", None, 1, 1, 0, 0, None, None, None, None),
    ]
    assert (first.ended, second.ended) == ([], ["u3", "u2"])
    assert (first.documents, second.documents) == ({NUMA: None}, {})


def test_an_instance_with_a_claim_is_building_for_its_own_scheduler_too() -> None:
    mine = changes()[0].added[0]
    assert (mine.vm_state, mine.os_type) == ("building", None)
    assert mine == claim_messages.decode(sent(changes()))[0].added[0]


def test_what_instances_have_in_common_is_sent_once() -> None:
    assert len(sent(changes())["changes"]["kinds"]["vcpus"]) == 2


def test_the_release_before_takes_it_for_a_push_without_claims() -> None:
    assert sent(changes()).keys() == {"changes"}


def test_what_a_later_release_says_besides_is_ignored() -> None:
    message = sent(changes())
    message["changes"] |= {"colour": 1}
    message["changes"]["nodes"] |= {"colour": ["red"]}
    message["changes"]["documents"] = {"node": [0], "name": ["colours"], "text": ["{}"]}
    assert [each.documents for each in claim_messages.decode(message)] == [{}, {}]


BROKEN = [
    ((), None, "changes: null is not an object"),
    (("nodes",), 7, "changes.nodes: 7 is not an object"),
    (("nodes", "after"), None, "changes.nodes.after: null is not a list"),
    (("nodes", "after"), [1], "changes.nodes: its lists differ in length"),
    (("nodes", "after"), [9, 3], "changes.nodes: a generation is not larger than the one before"),
    (("nodes", "before"), [-1, 0], "changes.nodes.before[0]: -1 is not between 0 and"),
    (("nodes", "claims"), [1, 2**31], "changes.nodes.claims[1]: 2147483648 is not between"),
    (("nodes", "free_ram_mb"), [1, "x"], "changes.nodes.free_ram_mb[1]: 'x' is not a whole"),
    (("nodes", "free_disk_mb"), [2**63, 0], "changes.nodes.free_disk_mb[0]: 9223372036854775808"),
    (("kinds",), {}, "changes.kinds.vcpus: null is not a list"),
    (("kinds", "project_id"), ["p" * 256, None], "changes.kinds.project_id[0]: 'ppp"),
    (("kinds", "image_properties"), [1.5e300, {}], "image_properties[1]: a dict is not text"),
    (("added", "uuid"), ["", "u1", "u2"], "changes.added.uuid[0]: '' is not text of 1 to 36"),
    (("added", "node"), [0, 1, 2], "changes: a number is not a position in its list"),
    (("added", "kind"), [0, 0, 2], "changes: a number is not a position in its list"),
    (("added", "kind"), [0, 0, -1], "changes.added.kind[2]: -1 is not between"),
    (("added", "is_alternate"), [0, 1, 2], "changes.added.is_alternate[2]: 2 is neither true nor"),
    (("ended", "node"), [5, 1], "changes: a number is not a position in its list"),
    (("documents", "text"), ["x" * 1_000_001], "is not text of 0 to 1000000 characters"),
]


@pytest.mark.parametrize(("path", "value", "reason"), BROKEN)
def test_what_cannot_be_read_is_refused_with_the_field(path, value, reason) -> None:
    message: Any = sent(changes())
    at = message
    path = ("changes", *path)
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    with pytest.raises(InvalidInput) as refused:
        claim_messages.decode(message)
    assert reason in refused.value.reason


def test_no_more_is_read_than_a_scheduler_sends() -> None:
    most, (change, _) = push_messages.MOST_NODES, changes()
    claim_messages.decode(sent([change] * most))
    with pytest.raises(InvalidInput, match="node_id: 101 items are more than 100"):
        claim_messages.decode(sent([change] * (most + 1)))
    change.ended = ["u1"] * (push_messages.MOST_INSTANCES + 1)
    with pytest.raises(InvalidInput, match=r"ended\.node: 10001 items are more than 10000"):
        claim_messages.decode(sent([change]))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["node_id", "node", "uuid", "x"]), inner, max_size=3)
    ),
    max_leaves=10,
)
PARTS = st.sampled_from(["nodes", "kinds", "added", "ended", "documents"])


@given(st.dictionaries(PARTS, JSON), st.booleans())
def test_nothing_but_invalid_input_comes_of_nonsense(parts, whole) -> None:
    message = sent(changes())["changes"] if whole else {}
    try:
        claim_messages.decode({"changes": message | parts})
    except InvalidInput:
        return
    assert not parts
