# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of name_search: what a text names, on every database."""

from dataclasses import replace

import pytest

from inventory import instances
from inventory.claims import claims
from inventory.claims.types import Claim, ClaimRequest
from inventory.operations import reservation_operations
from inventory.operations.reservation_operations import NewReservation
from inventory.queries import name_search
from tests.claimed import claim
from tests.contract.database.test_decisions import a_decision, keep
from tests.contract.database.test_instance_queries import node
from tests.databases import a_node, a_uuid, an_instance, save, serve

WEB, NEW = map(a_uuid, ("web", "new"))


@pytest.fixture
def named(cloud):
    """Hosts with and without services, an instance, one that is claimed only, and a decision."""
    save(cloud, a_node("rack1_a"), a_node("rack1xa"))
    serve(cloud, "rack1_b")
    row = an_instance(WEB, display_name="Web-1", project_id="p1")
    cloud.write(lambda c: instances.replace(c, "h1", "h1", [row]))
    claim(cloud, NEW, node(cloud, "h3"), about={"project_id": "p2"})
    keep(cloud, a_decision(1, project_id="p9", request_id="req-1", instance_uuids=[WEB]))
    return cloud


@pytest.fixture
def find(named):
    return lambda text: named.read(lambda c: name_search.find(c, text))


def test_hosts_are_found_by_a_part_of_their_names_without_wildcards(find):
    assert find("RACK1").hosts == ["rack1_a", "rack1_b", "rack1xa"]
    assert find("k1_").hosts == ["rack1_a", "rack1_b"]
    assert find("%").hosts == []


def test_instances_are_found_by_name_uuid_and_project(find):
    for text in ("eb-1", WEB, WEB.upper(), WEB[:9], "p1"):
        (found,) = find(text).instances
        assert (found.uuid, found.name, found.host) == (WEB, "Web-1", "h1"), text
    (claimed,) = find(NEW).instances
    assert (claimed.uuid, claimed.name, claimed.host) == (NEW, None, "h3")
    assert find("nobody").instances == []


def test_places_and_alternates_are_no_instances(named, find):
    h1, h2 = node(named, "h1"), node(named, "h2")
    place, other = Claim(a_uuid("place"), h1.id, "h1", "h1", 1, 1024, 0), a_uuid("other")
    new, request = NewReservation("r", "p1", (1, 1024, 0)), ClaimRequest(None, "", [place], 0)
    named.write(lambda c: reservation_operations.create(c, new, request))
    assert find(place.instance_uuid).instances == []
    chosen = Claim(other, h1.id, "h1", "h1", 1, 1024, 0)
    alternate = replace(chosen, node_id=h2.id, host="h2", node="h2", alternate=True)
    both = ClaimRequest("req-other", "any", [chosen, alternate], 900)
    named.write(lambda c: claims.claim(c, both))
    assert [each.host for each in find(other).instances] == ["h1"]


def test_decisions_are_found_by_request_and_instance(find):
    assert [each.request_id for each in find("req-1").decisions] == ["req-1"]
    assert [each.request_id for each in find(WEB).decisions] == ["req-1"]
    assert find("req").decisions == []


def test_projects_are_known_by_instances_and_by_decisions(find):
    assert [find(text).project for text in ("p1", "p9", "p")] == ["p1", "p9", None]


def test_what_has_the_whole_name_is_told_from_what_has_a_part_of_it(find):
    found = find("rack1_a")
    assert found.exact("Rack1_A") == [("hosts", "rack1_a")]
    assert find("rack1").exact("rack1") == []
    assert find("WEB-1").exact("WEB-1") == find(WEB).exact(WEB) == [("instances", WEB)]
    ((kind, _),) = find("req-1").exact("req-1")
    assert kind == "decisions"


def test_a_search_reads_a_bounded_number_of_hosts(named, find):
    save(named, *(a_node(f"many{each:02}") for each in range(30)))
    assert len(find("many").hosts) == name_search.LIMIT
