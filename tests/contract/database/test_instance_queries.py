# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of instance_queries: where instances are, and what is known about one."""

import pytest

from inventory import compute_nodes, instances, server_groups
from inventory.errors import Malformed, NotFound
from inventory.queries import instance_queries
from tests.claimed import claim, claim_and_age
from tests.databases import a_uuid, an_instance

WEB, OTHER, NEW = map(a_uuid, ("web", "other", "new"))


def put(database, host, *rows):
    database.write(lambda c: instances.replace(c, host, host, list(rows)))


def node(database, host):
    (found,) = database.read(lambda c: compute_nodes.of_hosts(c, [host]))
    return found


def listed(database, host=None, project=None):
    return database.read(lambda c: instance_queries.listed(c, host, project))


def show(database, text):
    return database.read(lambda c: instance_queries.show(c, text))


@pytest.fixture
def guests(cloud):
    """One instance on h1, one on h2, which has another project, and one that is only claimed."""
    put(cloud, "h1", an_instance(WEB, display_name="web", vcpus=4, root_gb=20))
    put(cloud, "h2", an_instance(OTHER, display_name="db", project_id="p2"))
    about = {"project_id": "p1", "root_gb": 5, "ephemeral_gb": 1}
    claim(cloud, NEW, node(cloud, "h3"), about=about)
    return cloud


def test_instances_are_listed_where_they_are_and_will_be(guests):
    assert [(row["uuid"], row["host"], row["state"]) for row in listed(guests)] == [
        (WEB, "h1", "active"),
        (OTHER, "h2", "active"),
        (NEW, "h3", "pending"),
    ]
    assert listed(guests)[0] == {
        "uuid": WEB,
        "name": "web",
        "host": "h1",
        "node": "h1",
        "project_id": "p1",
        "flavor": None,
        "vcpus": 4,
        "memory_mb": 1024,
        "disk_gb": 20,
        "state": "active",
        "task": None,
    }
    (pending,) = listed(guests, "h3")
    assert (pending["name"], pending["vcpus"], pending["disk_gb"]) == (None, 2, 6)


def test_the_list_is_narrowed_by_host_and_project(guests):
    assert [row["uuid"] for row in listed(guests, "H2")] == [OTHER]
    assert [row["uuid"] for row in listed(guests, None, "p1")] == [WEB, NEW]
    assert listed(guests, "h2", "p1") == []
    with pytest.raises(NotFound, match="there is no host 'h4'"):
        listed(guests, "h4")
    with pytest.raises(NotFound, match="of a project 'p22'; did you mean p2"):
        listed(guests, None, "p22")


def test_a_claim_where_the_instance_is_or_may_be_built_is_no_place(guests):
    claim(guests, WEB, node(guests, "h1"))
    claim(guests, OTHER, node(guests, "h3"), alternate=True)
    assert len(listed(guests)) == 3
    claim(guests, OTHER, node(guests, "h1"))
    assert [(row["host"], row["state"], row["name"]) for row in listed(guests)] == [
        ("h1", "pending", "db"),
        ("h1", "active", "web"),
        ("h2", "active", "db"),
        ("h3", "pending", None),
    ]


def test_an_instance_is_shown_with_its_claims_and_its_group(guests):
    guests.write(lambda c: server_groups.create(c, "apart", "anti-affinity", {}, [WEB]))
    claim_and_age(guests, WEB, node(guests, "h2"))
    for name in (WEB, WEB.upper(), "web", "WEB", " web "):
        shown = show(guests, name)
        assert (shown["uuid"], shown["host"], shown["server_group"]) == (WEB, "h1", "apart")
    place = {"host": "h1", "node": "h1", "state": "active", "task": None}
    assert (shown["places"], shown["decision"]) == ([place], None)
    (held,) = shown["claims"]
    assert (held["state"], held["host"], held["memory_mb"]) == ("pending", "h2", 2048)
    assert len(held["expires_at"]) == len("2026-11-27 17:00:00")


def test_an_instance_that_is_only_claimed_is_shown_with_its_size(guests):
    shown = show(guests, NEW)
    assert (shown["host"], shown["name"], shown["places"]) == (None, None, [])
    size = [shown[name] for name in ("project_id", "vcpus", "memory_mb", "disk_gb")]
    assert size == ["p1", 2, 2048, 6]


def test_one_of_several_with_a_name_is_told_by_its_uuid(guests):
    put(guests, "h2", an_instance(OTHER, display_name="Web"), an_instance(NEW, display_name="web"))
    with pytest.raises(Malformed) as caught:
        show(guests, "web")
    first, second = sorted([(WEB, "h1"), (NEW, "h2")])
    assert str(caught.value) == (
        f"instance: 2 instances have the name 'web': {first[0]} on {first[1]}; {second[0]} on"
        f" {second[1]}; name one of them by its uuid"
    )
    assert show(guests, "Web")["uuid"] == OTHER
    assert show(guests, NEW)["host"] == "h2"


def test_an_instance_on_two_hosts_is_one(guests):
    put(guests, "h2", an_instance(WEB, display_name="web", task_state="migrating"))
    shown = show(guests, "web")
    assert (shown["host"], len(shown["places"])) == ("h1, h2", 2)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("webb", "did you mean web?"),
        ("xyz", "see 'instance list'"),
        (f"{WEB[:-1]}_", f"did you mean {WEB}?"),
        (a_uuid("nobody"), "see 'instance list'"),
        ("5", "see 'instance list'"),
        ("%", "see 'instance list'"),
    ],
)
def test_an_instance_that_there_is_not(guests, text, hint):
    with pytest.raises(NotFound) as caught:
        show(guests, text)
    assert str(caught.value) == f"there is no instance {text!r}; {hint}"
