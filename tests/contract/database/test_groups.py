# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.aggregates, inventory.server_groups and inventory.revisions."""

from threading import Thread

import pytest
from oslo_db import exception

from inventory import aggregates, instances, revisions, server_groups
from tests.databases import an_instance, open_at


def create_aggregate(database, name, hosts=(), **metadata):
    return database.write(lambda c: aggregates.create(c, name, hosts, metadata))


def create_group(database, name, *members, policy="anti-affinity", **rules):
    return database.write(lambda c: server_groups.create(c, name, policy, rules, members))


def find(database, name):
    return database.read(lambda c: server_groups.find(c, name))


def test_aggregates_with_their_hosts_and_metadata(database):
    first = create_aggregate(database, "ssd", ["h2", "h1", "h1"], ssd="true", zone="z1")
    second = create_aggregate(database, "empty")
    one, two = database.read(aggregates.everything)
    assert (one.uuid, one.name, sorted(one.hosts)) == (first, "ssd", ["h1", "h2"])
    assert one.metadata == {"ssd": "true", "zone": "z1"}
    assert (two.uuid, two.hosts, two.metadata) == (second, [], {})
    assert one.id < two.id


def test_every_aggregate_advances_the_revision_that_readers_compare(database):
    assert database.read(revisions.current)[0] == {}
    create_aggregate(database, "a")
    create_aggregate(database, "b")
    assert database.read(revisions.current)[0] == {"aggregates": 2}


def test_the_name_of_an_aggregate_is_its_own(database):
    create_aggregate(database, "a", ["h1"])
    with pytest.raises(exception.DBDuplicateEntry):
        create_aggregate(database, "a", ["h2"])
    # The failed transaction left nothing behind, its revision included.
    (only,) = database.read(aggregates.everything)
    assert only.hosts == ["h1"]
    assert database.read(revisions.current)[0] == {"aggregates": 1}


def test_server_groups_by_uuid_and_by_name(database):
    uuid = create_group(database, "web", "u1", "u2", "u1", max_server_per_host=2)
    group = find(database, uuid)
    assert group == find(database, "web")
    assert (group.uuid, group.name, group.policy) == (uuid, "web", "anti-affinity")
    assert group.rules == {"max_server_per_host": 2}
    assert sorted(group.members) == ["u1", "u2"]
    assert group.hosts == []
    assert find(database, "unknown") is None


def test_of_several_groups_of_one_name_the_first_is_meant(database):
    first = create_group(database, "web")
    second = create_group(database, "web")
    assert find(database, "web").uuid == first
    assert find(database, second).uuid == second
    # A group may be called like another one's uuid; the uuid counts.
    create_group(database, second)
    assert find(database, second).uuid == second


def test_the_hosts_of_a_group_are_where_its_members_were_seen(database):
    uuid = create_group(database, "web", "u1", "u2", "u3")
    see = {"h2": ["u1", "x"], "h1": ["u1", "u2"]}
    for host, uuids in see.items():
        seen = [an_instance(each) for each in uuids]
        database.write(lambda c, host=host, seen=seen: instances.replace(c, host, "n", seen))
    assert find(database, uuid).hosts == ["h1", "h2"]
    database.write(lambda c: instances.replace(c, "h1", "n", []))
    assert find(database, uuid).hosts == ["h2"]


def test_revisions_count_every_change_however_many_make_them_at_once(url, database):
    def advance():
        own = open_at(url)
        for _ in range(10):
            own.write(lambda c: revisions.advance(c, "mine"))
        own.close()

    threads = [Thread(target=advance) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert database.read(revisions.current)[0]["mine"] == 40


def test_a_request_gets_the_group_of_its_very_name(database):
    first, second = create_group(database, "München"), create_group(database, "Munchen")
    for name, uuid in (("München", first), ("Munchen", second)):
        assert database.read(lambda c, name=name: server_groups.find(c, name)).uuid == uuid
