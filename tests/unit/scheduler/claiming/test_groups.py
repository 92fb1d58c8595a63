# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.claiming.groups."""

from collections import Counter

import pytest

from scheduler.claiming.groups import with_members
from tests.builders import GROUP, a_group, a_request


def found(spec, **there):
    """Return the hosts of the group when its other members are there."""
    return with_members(spec, ["u1"], lambda *_: Counter(there)).instance_group.hosts


def test_members_that_must_be_together_are_where_they_are_now():
    spec = a_request(instance_group=a_group("affinity", hosts=["h1"]))
    assert found(spec, h2=3) == ["h2", "h2", "h2"]
    assert found(spec) == ["h1"]
    # The caller's own is not touched.
    assert spec.instance_group.hosts == ["h1"]


@pytest.mark.parametrize("policy", ["anti-affinity", "soft-affinity", "soft-anti-affinity"])
def test_hosts_that_are_taken_are_those_that_anybody_knows_of(policy):
    spec = a_request(instance_group=a_group(policy, hosts=["h1", "h1", "h2"]))
    assert found(spec, h2=2, h3=1) == ["h1", "h1", "h2", "h2", "h3"]


def test_the_question_names_group_members_and_instances():
    asked = []

    def members(*arguments):
        asked.append(arguments)
        return Counter()

    spec = a_request(instance_group=a_group(members=["u1", "u2"]))
    assert with_members(spec, ["u1"], members) is spec
    assert asked == [(GROUP, ["u1", "u2"], ["u1"], True)]


@pytest.mark.parametrize(
    "group",
    [
        None,
        a_group("unknown"),
        a_group(None),
        a_group(uuid=None),
    ],
)
def test_others_are_left_alone(group):
    spec = a_request(instance_group=group)
    assert with_members(spec, ["u1"], lambda *_: pytest.fail("not asked")) is spec
