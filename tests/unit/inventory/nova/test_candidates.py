# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How a request is put to Placement."""

from inventory.nova.candidates import RequestGroup, RequestGroups

PORT = RequestGroup({"NET_BW_EGR_KILOBIT_PER_SEC": 10}, suffix="_port1")


def test_everything_that_a_group_may_ask_for() -> None:
    group = RequestGroup(
        {"VCPU": 2, "MEMORY_MB": 512},
        required=["HW_CPU_X86_AVX2"],
        forbidden=["COMPUTE_STATUS_DISABLED"],
        member_of=[["a1", "a2"], ["a3"]],
        forbidden_aggregates=["a4"],
    )
    assert RequestGroups([group]).query(in_tree="p1", limit=3) == [
        ("resources", "MEMORY_MB:512,VCPU:2"),
        ("required", "HW_CPU_X86_AVX2,!COMPUTE_STATUS_DISABLED"),
        ("member_of", "in:a1,a2"),
        ("member_of", "in:a3"),
        ("member_of", "!in:a4"),
        ("in_tree", "p1"),
        ("limit", "3"),
    ]


def test_what_groups_are_asked_together() -> None:
    groups = RequestGroups(
        [RequestGroup({"VCPU": 1}), PORT],
        policy="none",
        same_subtree=[["_port1", "_port2"]],
        root_required=["COMPUTE_NODE", "!COMPUTE_STATUS_DISABLED"],
    )
    assert groups.query(in_tree=None, limit=None) == [
        ("resources", "VCPU:1"),
        ("resources_port1", "NET_BW_EGR_KILOBIT_PER_SEC:10"),
        ("same_subtree", "_port1,_port2"),
        ("root_required", "COMPUTE_NODE,!COMPUTE_STATUS_DISABLED"),
        ("group_policy", "none"),
    ]


def test_the_tree_is_named_where_there_are_resources() -> None:
    """As for a server whose flavor wants nothing and whose port wants something."""
    together = RequestGroup({}, suffix="_a", required=["CUSTOM_SWITCH"])
    assert RequestGroups([together, PORT]).query(in_tree="p1", limit=None) == [
        ("required_a", "CUSTOM_SWITCH"),
        ("resources_port1", "NET_BW_EGR_KILOBIT_PER_SEC:10"),
        ("in_tree_port1", "p1"),
    ]
