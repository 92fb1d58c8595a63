# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.operations.server_group_operations."""

import pytest
import sqlalchemy as sa

from inventory import instances, server_groups, stored_documents, tables
from inventory.claims import claims, group_locks
from inventory.claims.types import Claim, ClaimLost, ClaimRequest, GroupRule
from inventory.errors import InUse, Malformed, NotFound
from inventory.operations import server_group_operations
from tests.databases import an_instance, execute

POLICIES = ["affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"]


def create(database, name="web", policy="anti-affinity", most=None):
    return database.write(lambda c: server_group_operations.create(c, name, policy, most))


def show(database, name="web"):
    return database.read(lambda c: server_group_operations.show(c, name))


def listed(database):
    return database.read(server_group_operations.listed)


def delete(database, *names, force=False):
    return database.write(lambda c: server_group_operations.delete(c, names, force))


def add(database, *uuids, name="web", force=False):
    return database.write(lambda c: server_group_operations.add_instances(c, name, uuids, force))


def remove(database, *uuids, name="web"):
    return database.write(lambda c: server_group_operations.remove_instances(c, name, uuids))


def claim(database, group, instance, host="h2", node=2, most=9):
    """Claim for a member of a group, or of none, as schedulers do."""
    rule = GroupRule(group, [instance], most) if group else None
    if group:
        group_locks.ensure(database, [group])
    wanted = Claim(instance, node, host, host, 1, 512, 0)
    order = ClaimRequest(f"req-{instance}", "any", [wanted], 900, group=rule)
    database.write(lambda c: claims.claim(c, order))


def see(database, host, *uuids):
    """Write the guests of a host as its agent does."""
    guests = [an_instance(uuid) for uuid in uuids]
    database.write(lambda c: instances.replace(c, host, host, guests))


@pytest.mark.parametrize("policy", POLICIES)
def test_a_group_is_made_and_found_by_requests(database, policy):
    made = create(database, " web ", policy)
    assert made == show(database, "WEB") == show(database, made["id"].upper())
    assert (made["name"], made["policy"], made["rules"]) == ("web", policy, {})
    assert (made["members"], made["hosts"]) == ([], [])
    found = database.read(lambda c: server_groups.find(c, "web"))
    assert (found.uuid, found.policy, found.rules) == (made["id"], policy, {})


def test_how_many_may_be_on_a_host_is_a_rule_of_anti_affinity(database):
    assert create(database, most=2)["rules"] == {"max_server_per_host": 2}
    for policy, most, problem in (
        ("anti-affinity", 0, "max per host: 0 is less than 1"),
        ("soft-anti-affinity", 2, "max per host: is for the policy anti-affinity, not for"),
        ("affinity", 2, "max per host: is for the policy anti-affinity, not for affinity"),
        ("legacy", None, "policy: 'legacy' is not one of affinity, anti-affinity, soft-affinity"),
    ):
        with pytest.raises(Malformed) as caught:
            create(database, "other", policy, most)
        assert str(caught.value).startswith(problem)


def test_names_are_given_once_and_fit_a_line(database):
    create(database)
    # Requests name groups, and people mix such names up.
    for name in ("WEB", "wéb"):
        with pytest.raises(
            InUse, match=f"group 'web' already, which counts as the same name as '{name}'"
        ):
            create(database, name)
    for name in ("", "x" * 256, "a\tb"):
        with pytest.raises(Malformed, match="name: "):
            create(database, name)
    assert [each["name"] for each in listed(database)] == ["web"]


def test_groups_that_there_are_none_or_several_of(database):
    twins = [
        database.write(lambda c: server_groups.create(c, "twin", "affinity", {}, []))
        for _ in range(2)
    ]
    for order in (show, delete):
        with pytest.raises(NotFound, match="there is no server group 'x'; see 'server group list'"):
            order(database, "x")
        with pytest.raises(Malformed) as caught:
            order(database, "twin")
        assert all(uuid in str(caught.value) for uuid in twins)
    assert delete(database, twins[0]) == [{"id": twins[0], "name": "twin", "policy": "affinity"}]
    assert show(database, "twin")["id"] == twins[1]


def test_members_are_those_it_was_made_with_and_those_claimed_for(cloud):
    uuid = cloud.write(lambda c: server_groups.create(c, "web", "anti-affinity", {}, ["u1", "u2"]))
    create(cloud, "other")
    cloud.write(lambda c: instances.replace(c, "h1", "h1", [an_instance("u1")]))
    claim(cloud, uuid, "u3")
    claim(cloud, "a group of a conductor", "u4")
    shown = show(cloud)
    assert (shown["members"], shown["hosts"]) == (["u1", "u2", "u3"], ["h1", "h2"])
    assert {each["name"]: each["members"] for each in listed(cloud)} == {
        "web": ["u1", "u2", "u3"],
        "other": [],
    }


def test_a_group_with_members_is_deleted_by_force_only(cloud):
    create(cloud, "empty")
    uuid = cloud.write(lambda c: server_groups.create(c, "web", "affinity", {}, ["u1"]))
    cloud.write(lambda c: instances.replace(c, "h1", "h1", [an_instance("u1")]))
    claim(cloud, uuid, "u3")
    with pytest.raises(InUse) as caught:
        delete(cloud, "empty", "web")
    assert str(caught.value) == (
        "server group web has 2 members, on h1, h2: delete them first, or delete the group"
        " nevertheless with --force: its policy then no longer applies to them"
    )
    assert len(listed(cloud)) == 2
    delete(cloud, "empty", "web", force=True)
    assert listed(cloud) == []
    # They are still there, and those who claim for one more see them.
    assert cloud.read(lambda c: group_locks.members(c, uuid, [])) == {"u3": {"h2"}}
    cloud.write(lambda c: group_locks.lock(c, [uuid]))


def test_members_that_are_gone_keep_no_group(cloud):
    uuid = cloud.write(lambda c: server_groups.create(c, "web", "affinity", {}, ["u1"]))
    claim(cloud, uuid, "u3")
    cloud.write(lambda c: claims.release(c, ["u3"]))
    delete(cloud, uuid)
    for table in (tables.server_groups, tables.server_group_members, tables.claimed_groups):
        assert cloud.read(lambda c, table=table: c.execute(sa.select(table)).all()) == []


def test_instances_become_members_and_leave(cloud):
    create(cloud)
    see(cloud, "h1", "u1")
    claim(cloud, None, "u2")
    shown = add(cloud, "u1", " u2 ", "u1")
    assert shown == show(cloud)
    assert (shown["members"], shown["hosts"]) == (["u1", "u2"], ["h1", "h2"])
    found = cloud.read(lambda c: server_groups.find(c, "web"))
    assert (sorted(found.members), found.hosts) == (["u1", "u2"], ["h1"])
    claim(cloud, shown["id"], "u3", "h3", 3)
    assert remove(cloud, "u1", "u3")["members"] == ["u2"]
    assert remove(cloud, "u2")["members"] == []
    assert add(cloud, "u1", "u3")["members"] == ["u1", "u3"]


def test_who_has_decided_before_an_instance_joined_sees_it_when_claiming(cloud):
    uuid = create(cloud)["id"]
    claim(cloud, None, "u1", "h1", 1)
    add(cloud, "u1")
    with pytest.raises(ClaimLost, match="the server group has come to h1"):
        claim(cloud, uuid, "u2", "h1", 1, most=1)
    remove(cloud, "u1")
    claim(cloud, uuid, "u2", "h1", 1, most=1)


def test_members_that_break_the_policy_are_added_by_force_only(cloud):
    for name, policy, most in (("near", "affinity", None), ("two", "anti-affinity", 2)):
        create(cloud, name, policy, most)
    see(cloud, "h1", "n1", "n2", "t1", "t2", "t3", "s1", "s2")
    see(cloud, "h2", "n3", "t4")
    add(cloud, "n1", "n2", name="near")
    with pytest.raises(InUse) as caught:
        add(cloud, "n3", name="near")
    assert str(caught.value) == (
        "server group near would break its policy affinity on h2: move instances first, or add"
        " the instances nevertheless with --force"
    )
    add(cloud, "t1", "t2", "t4", name="two")
    with pytest.raises(InUse, match="would break its policy anti-affinity on h1"):
        add(cloud, "t3", name="two")
    assert add(cloud, "t3", name="two", force=True)["hosts"] == ["h1", "h2"]
    create(cloud, "apart", "soft-anti-affinity")
    assert add(cloud, "s1", "s2", name="apart")["members"] == ["s1", "s2"]


def test_of_a_group_that_begins_with_several_hosts_none_has_affinity(cloud):
    create(cloud, policy="affinity")
    see(cloud, "h1", "u1")
    see(cloud, "h2", "u2")
    with pytest.raises(InUse, match="would break its policy affinity on h2"):
        add(cloud, "u1", "u2")


def test_instances_that_cannot_become_members(cloud):
    create(cloud)
    create(cloud, "other", "soft-affinity")
    see(cloud, "h1", "u1", "u2")
    add(cloud, "u1", name="other")
    claim(cloud, "a group of a conductor", "u3")
    for uuid, kind, refusal in (
        (
            "u1",
            InUse,
            "instance u1 is in server group other: an instance can be in one server group only",
        ),
        (
            "u3",
            InUse,
            "instance u3 is in server group a group of a conductor: an instance can be in",
        ),
        ("u9", NotFound, "there is no instance 'u9': no agent has seen it, and it has no claim"),
    ):
        with pytest.raises(kind) as caught:
            add(cloud, "u2", uuid)
        assert str(caught.value).startswith(refusal)
    with pytest.raises(InUse, match="instance u1 is in server group other already"):
        add(cloud, "u1", name="other")
    assert show(cloud)["members"] == []


def test_instances_that_are_no_members_cannot_leave(cloud):
    create(cloud)
    with pytest.raises(NotFound, match="'u1' is not in server group web, which has no members"):
        remove(cloud, "u1")
    see(cloud, "h1", "u2")
    add(cloud, "u2")
    with pytest.raises(NotFound, match="instance 'u1' is not in server group web, which has u2"):
        remove(cloud, "u2", "u1")
    assert show(cloud)["members"] == ["u2"]


@pytest.mark.parametrize("text", ['{"max_server_per', "7", "[]"])
def test_a_group_with_unreadable_rules_counts_as_one_without(database, text):
    stored_documents.warn.cache_clear()
    create(database, "web", "anti-affinity", 3)
    create(database, "db", "anti-affinity", 3)
    execute(database, "UPDATE server_groups SET rules = :text WHERE name = 'web'", text=text)
    assert [show(database, name)["rules"] for name in ("web", "db")] == [
        {},
        {"max_server_per_host": 3},
    ]
    assert database.read(lambda c: server_groups.find(c, "web")).rules == {}
    delete(database, "web")
    assert [each["name"] for each in listed(database)] == ["db"]
