# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Rows that agents push survive the way to a scheduler; what is malformed is refused whole."""

import copy
import json
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory import compute_nodes, instances
from inventory.claims import claims, existing
from inventory.claims.types import Claim, ClaimRequest
from scheduler.wire import push_messages
from scheduler.wire.errors import InvalidInput
from scheduler.wire.push_messages import Pushed
from tests.databases import a_node, an_instance, save


@pytest.fixture
def rows(database):
    """Return a node with every column set, and an instance and a claim on it, as they are read."""
    facts = {
        "disk_available_least": -3,
        "metrics": "[]",
        "numa_topology": "{}",
        "pci_stats": "{}",
        "stats": json.dumps({"num_instances": "1", "name": "Zürich"}),
    }
    save(database, a_node("h1", id=7, **facts))
    guest = an_instance("u1", flavor_id=7, flavor_name="m1.small", image_properties="{}")
    guest |= {"task_state": "spawning", "os_type": "linux", "ephemeral_gb": 3}
    database.write(lambda c: instances.replace(c, "h1", "h1", [guest]))
    about = {"flavor_id": 8, "project_id": "p1", "image_properties": "{}", "root_gb": 10}
    wanted = Claim("u2", 7, "h1", "h1", 4, 4096, 2_000_000, about=about)
    order = ClaimRequest("req-1", "d", [wanted], 900)
    database.write(lambda c: claims.claim(c, order))
    return database.read(
        lambda c: Pushed(
            list(compute_nodes.all_live(c)),
            list(instances.all_live(c)),
            list(existing.as_instances(c)),
        )
    )


def sent(written):
    """Return what arrives at a scheduler."""
    return json.loads(json.dumps(push_messages.encode(written)))


def times(rows, nodes, guests, claimed):
    """Return the same rows so many times."""
    return Pushed(rows.nodes * nodes, rows.instances * guests, rows.claims * claimed)


def test_rows_arrive_as_they_were_written(rows):
    pushed = push_messages.decode(sent(rows))
    for kind in ("nodes", "instances", "claims"):
        (row,), (arrived,) = getattr(rows, kind), getattr(pushed, kind)
        columns = arrived.__slots__
        assert {name: getattr(arrived, name) for name in columns} == {
            name: getattr(row, name) for name in columns
        }
    (node,) = pushed.nodes
    assert isinstance(node.updated_at, datetime)
    assert (node.disk_available_least, node.claims) == (-3, 1)
    # More than is there is claimed of a disk that has shrunk.
    assert (node.disk_mb_used, node.free_disk_mb) == (2_000_000, -3 * 1024 - 2_000_000)
    assert (pushed.claims[0].uuid, pushed.claims[0].compute_node_id) == ("u2", 7)


@pytest.mark.parametrize("mb", [None, -(2**40), 2**40])
def test_disks_may_be_huge_or_unknown(rows, mb):
    message = sent(rows)
    message["nodes"][0] |= {"disk_mb_used": mb, "free_disk_mb": mb}
    (node,) = push_messages.decode(message).nodes
    assert (node.disk_mb_used, node.free_disk_mb) == (mb, mb)


def test_what_a_later_release_says_besides_is_ignored(rows):
    message = sent(rows)
    message["nodes"][0]["colour"] = {"of": ["what"]}
    message["later"] = 1
    assert push_messages.decode(message).nodes[0].host == "h1"


BROKEN = [
    (("nodes",), None, "nodes: null is not a list"),
    (("nodes",), "x", "nodes: 'x' is not a list"),
    (("nodes", 0), 7, "nodes[0]: 7 is not an object"),
    (("nodes", 0, "id"), None, "nodes[0].id: null is not a whole number"),
    (("nodes", 0, "id"), 2**31, "nodes[0].id: 2147483648 is not between 0 and 2147483647"),
    (("nodes", 0, "generation"), -1, "nodes[0].generation: -1 is not between"),
    (("nodes", 0, "generation"), 10**400, "nodes[0].generation: a 1329-bit number is not between"),
    (("nodes", 0, "free_ram_mb"), "much", "nodes[0].free_ram_mb: 'much' is not a whole number"),
    (("nodes", 0, "vcpus"), True, "nodes[0].vcpus: True is not a whole number"),
    (("nodes", 0, "host"), "h" * 256, "nodes[0].host: 'hhhh"),
    (("nodes", 0, "cpu_info"), "x" * 1_000_001, "is not text of 0 to 1000000 characters"),
    (("nodes", 0, "stats"), {"num_instances": 1}, "nodes[0].stats: a dict is not text"),
    (("nodes", 0, "ram_allocation_ratio"), float("nan"), "is not a finite number"),
    (("nodes", 0, "updated_at"), "now", "nodes[0].updated_at: 'now' is not a time without zone"),
    (("nodes", 0, "updated_at"), "2026-01-01T00:00:00Z", "is not a time without zone"),
    (("nodes", 0, "updated_at"), [], "updated_at: a list is not a time without zone"),
    (("instances",), None, "instances: null is not a list"),
    (("instances", 0, "uuid"), "", "instances[0].uuid: '' is not text of 1 to 36 characters"),
    (("instances", 0, "vcpus"), None, "instances[0].vcpus: null is not a whole number"),
    (("nodes", 0, "free_disk_mb"), 2**63, "nodes[0].free_disk_mb: 9223372036854775808 is not b"),
    (("nodes", 0, "claims"), None, "nodes[0].claims: null is not a whole number"),
    (("claims",), None, "claims: null is not a list"),
    (("claims", 0, "compute_node_id"), "x", "claims[0].compute_node_id: 'x' is not a whole"),
]


@pytest.mark.parametrize(("path", "value", "reason"), BROKEN)
def test_what_cannot_be_read_is_refused_with_the_field(rows, path, value, reason):
    message: Any = sent(rows)
    at = message
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    with pytest.raises(InvalidInput) as refused:
        push_messages.decode(message)
    assert reason in refused.value.reason


@pytest.mark.parametrize("kind", ["nodes", "instances", "claims"])
def test_half_a_row_is_refused(rows, kind):
    whole = sent(rows)
    for column in whole[kind][0]:
        message = copy.deepcopy(whole)
        del message[kind][0][column]
        with pytest.raises(InvalidInput, match=rf"{kind}\[0\]\.{column}: is missing"):
            push_messages.decode(message)


def test_no_more_is_read_than_an_agent_sends(rows):
    most_nodes, most = push_messages.MOST_NODES, push_messages.MOST_INSTANCES
    push_messages.decode(sent(times(rows, most_nodes, most, most)))
    with pytest.raises(InvalidInput, match="nodes: 101 items are more than 100"):
        push_messages.decode(sent(times(rows, most_nodes + 1, 1, 1)))
    with pytest.raises(InvalidInput, match="instances: 10001 items are more than 10000"):
        push_messages.decode(sent(times(rows, 1, most + 1, 1)))
    with pytest.raises(InvalidInput, match="claims: 10001 items are more than 10000"):
        push_messages.decode(sent(times(rows, 1, 1, most + 1)))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "host", "uuid", "x"]), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(["nodes", "instances", "claims", "x"]), JSON))
def test_nothing_but_invalid_input_comes_of_nonsense(arguments):
    try:
        pushed = push_messages.decode(arguments)
    except InvalidInput:
        return
    assert (pushed.nodes, pushed.instances, pushed.claims) == ([], [], [])
