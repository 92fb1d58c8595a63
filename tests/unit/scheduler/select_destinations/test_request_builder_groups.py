# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of request_builder.with_members(): members of a group that are claimed or placed."""

import pytest

from inventory.claims.group_locks import GroupMembers, read_members
from inventory.claims.types import Claim, ClaimRequest, GroupRule
from scheduler.decision.pipeline import Request
from scheduler.select_destinations.request_builder import with_members
from tests.builders import GROUP, a_group, a_request
from tests.claiming_loop import ClaimingLoop
from tests.databases import a_node, save


def members(hosts):
    """Return members of the group by the host of each."""
    found = GroupMembers()
    claims = [Claim(uuid, 1, host, host, 1, 512, 0) for uuid, host in hosts.items()]
    found.add(ClaimRequest("r", "d", claims, 900, GroupRule(GROUP, ())))
    return found


def of_u1(spec, hosts):
    """Return the request of u1 when members of its group are on these hosts."""
    return with_members(Request(spec, ["u1"]), ["u1"], members(hosts)).spec


def found(spec, **there):
    """Return the hosts of the group when so many of its other members are there."""
    numbered = {f"{host}.{n}": host for host, count in there.items() for n in range(count)}
    return of_u1(spec, numbered).instance_group.hosts


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


def test_an_instance_of_the_request_does_not_count():
    spec = a_request(instance_group=a_group(members=["u1"]))
    assert of_u1(spec, {"u1": "h1"}) is spec


@pytest.mark.parametrize("policy", ["affinity", "anti-affinity"])
def test_members_are_found_by_list_and_claim_and_alternates_count_unless_they_may_be_joined(
    database, policy
):
    save(database, a_node("h1"), a_node("h2", id=2), a_node("h3", id=3))
    claimer = ClaimingLoop(database)
    held = [
        Claim("u3", 2, "h2", "h2", 1, 512, 0),
        Claim("u3", 3, "h3", "h3", 1, 512, 0, alternate=True),
    ]
    claimer.claim(ClaimRequest("r2", "d", [Claim("u2", 1, "h1", "h1", 1, 512, 0)], 900))
    claimer.claim(ClaimRequest("r3", "d", held, 900, GroupRule(GROUP, [], 9)))
    spec = a_request(instance_group=a_group(policy, members=["u1", "u2"]))
    hosts = ["h1", "h2"] if policy == "affinity" else ["h1", "h2", "h3"]
    read = read_members(database.read, [spec.instance_group])
    found = with_members(Request(spec, ["u1"]), ["u1"], read)
    assert found.spec.instance_group.hosts == hosts


@pytest.mark.parametrize("group", [None, a_group("unknown"), a_group(None), a_group(uuid=None)])
def test_others_are_left_alone(group):
    spec = a_request(instance_group=group)
    assert of_u1(spec, {"u2": "h2"}) is spec
