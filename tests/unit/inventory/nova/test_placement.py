# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What the answers of Placement mean."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from inventory.nova.candidates import RequestGroup, RequestGroups
from inventory.nova.placement import ConsumerAllocations, Inventory, PlacementClient, VersionRange
from inventory.nova.placement_errors import PlacementRefused
from tests.fixtures.canned_http import CannedServer, serving
from tests.unit.inventory.nova.test_placement_session import a_client, an_error, token

INVENTORY = {"total": 16, "reserved": 2, "min_unit": 1, "max_unit": 16, "step_size": 1}


@pytest.fixture
def server() -> Iterator[CannedServer]:
    with serving() as found:
        yield found


@pytest.fixture
def client(tmp_path: Path, server: CannedServer) -> Iterator[PlacementClient]:
    found = a_client(tmp_path, token(server.url))
    yield found
    found.close()


@pytest.mark.parametrize(
    ("minimum", "maximum", "is_enough"),
    [("1.0", "1.39", True), ("1.0", "1.36", True), ("1.0", "1.9", False), ("1.37", "1.40", False)],
)
def test_whether_a_placement_is_new_enough(minimum: str, maximum: str, is_enough: bool) -> None:
    assert VersionRange(minimum, maximum).is_enough is is_enough


def test_providers_come_with_their_trees(client: PlacementClient, server: CannedServer) -> None:
    root = {"uuid": "p1", "name": "h1", "generation": 7, "links": []}
    root |= {"parent_provider_uuid": None, "root_provider_uuid": "p1"}
    child = root | {"uuid": "p2", "name": "h1_gpu", "parent_provider_uuid": "p1"}
    server.answer("GET", "/resource_providers", {"resource_providers": [root, child]})
    found = client.providers()
    assert [(each.name, each.generation, each.parent_uuid) for each in found] == [
        ("h1", 7, None),
        ("h1_gpu", 7, "p1"),
    ]
    assert len(server.requests) == 1


def test_capacity_has_the_reserve_and_overcommit(
    client: PlacementClient, server: CannedServer
) -> None:
    found = INVENTORY | {"allocation_ratio": 1.5}
    answer = {"resource_provider_generation": 3, "inventories": {"VCPU": found}}
    server.answer("GET", "/resource_providers/p1/inventories", answer)
    inventory = client.inventories("p1")["VCPU"]
    assert inventory == Inventory(16, 2, 16, 1.5)
    assert inventory.capacity == 21


def test_who_has_what_of_a_provider(client: PlacementClient, server: CannedServer) -> None:
    found = {"c1": {"resources": {"VCPU": 2}, "consumer_generation": 1}}
    answer = {"allocations": found, "resource_provider_generation": 3}
    server.answer("GET", "/resource_providers/p1/allocations", answer)
    assert client.allocations_of("p1") == {"c1": {"VCPU": 2}}


def test_a_provider_that_is_gone_meanwhile_has_nothing(
    client: PlacementClient, server: CannedServer
) -> None:
    one = {"uuid": "p1", "name": "h1", "generation": 7, "parent_provider_uuid": None}
    one |= {"root_provider_uuid": "p1"}
    providers = [one, one | {"uuid": "p2"}]
    server.answer("GET", "/resource_providers", {"resource_providers": providers})
    found = {"allocations": {"c1": {"resources": {"VCPU": 2}}}}
    server.answer("GET", "/resource_providers/p1/allocations", found)
    gone = an_error(404, "No resource provider")
    server.answer("GET", "/resource_providers/p2/allocations", gone, 404)
    records = client.records()
    assert records.allocations == {"p1": {"c1": {"VCPU": 2}}, "p2": {}}
    assert records.roots == {"p1": "p1", "p2": "p1"}
    server.answer("GET", "/resource_providers/p2/allocations", an_error(400, "Wrong"), 400)
    with pytest.raises(PlacementRefused, match="Wrong"):
        client.records()


def test_what_a_consumer_has(client: PlacementClient, server: CannedServer) -> None:
    answer = {
        "allocations": {"p1": {"generation": 3, "resources": {"VCPU": 2}}},
        "consumer_generation": 1,
        "project_id": "project",
        "user_id": "user",
    }
    server.answer("GET", "/allocations/c1", answer)
    server.answer("GET", "/allocations/c2", {"allocations": {}})
    found = client.allocations_for("c1")
    assert found == ConsumerAllocations({"p1": {"VCPU": 2}}, 1, "project", "user")
    assert client.allocations_for("c2") == ConsumerAllocations({}, None, None, None)


def test_candidates_of_one_tree(client: PlacementClient, server: CannedServer) -> None:
    wanted = {"allocations": {"p1": {"resources": {"VCPU": 1}}}, "mappings": {"": ["p1"]}}
    summary = {
        "resources": {"VCPU": {"capacity": 64, "used": 3}},
        "traits": ["COMPUTE_NODE"],
        "parent_provider_uuid": None,
        "root_provider_uuid": "p1",
    }
    answer = {"allocation_requests": [wanted], "provider_summaries": {"p1": summary}}
    server.answer("GET", "/allocation_candidates", answer)
    groups = RequestGroups([RequestGroup({"VCPU": 1})])
    found = client.allocation_candidates(groups, in_tree="p1", limit=5)
    assert found.allocation_requests == [wanted]
    amount = found.provider_summaries["p1"].resources["VCPU"]
    assert (amount.capacity, amount.used) == (64, 3)
    assert server.requests[0].path.endswith("?resources=VCPU%3A1&in_tree=p1&limit=5")


def test_a_document_goes_as_it_is(client: PlacementClient, server: CannedServer) -> None:
    server.answer("POST", "/allocations", status=204)
    client.post_allocations({"c1": {}})
    assert [each.body for each in server.requests] == [{"c1": {}}]


def test_nothing_to_delete_is_no_error(client: PlacementClient, server: CannedServer) -> None:
    server.answer("DELETE", "/allocations/c1", status=204)
    server.answer("DELETE", "/allocations/c2", an_error(404, "No allocations"), 404)
    server.answer("DELETE", "/allocations/c3", an_error(400, "No uuid"), 400)
    assert client.delete_allocations("c1")
    assert not client.delete_allocations("c2")
    with pytest.raises(PlacementRefused, match="No uuid"):
        client.delete_allocations("c3")
