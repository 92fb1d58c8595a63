# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Our client of Placement and a real one: what is written, refused and read back."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from inventory.nova.allocation_audit import (
    AuditedInstance,
    Kind,
    NovaRecords,
    PlacementRecords,
    audit,
)
from inventory.nova.candidates import RequestGroup, RequestGroups
from inventory.nova.placement import PlacementClient
from inventory.nova.placement_errors import (
    PlacementConflict,
    PlacementRefused,
    PlacementUnavailable,
)
from tests.fixtures.daemons.process import wait_until
from tests.fixtures.placement import Placement

SMALL = {"VCPU": 1, "MEMORY_MB": 512}
ONE = RequestGroups([RequestGroup(SMALL)])
Ask = Callable[..., PlacementClient]


@pytest.fixture
def ask(placement: Placement, tmp_path: Path) -> Iterator[Ask]:
    """Clients by their options, which differ from those of an administrator."""
    clients = []

    def open_client(**options: str) -> PlacementClient:
        clients.append(placement.client(tmp_path, **options))
        return clients[-1]

    yield open_client
    for each in clients:
        each.close()


@pytest.fixture
def client(ask: Ask) -> PlacementClient:
    return ask()


@pytest.fixture
def host(client: PlacementClient) -> str:
    """The uuid of a host with room for 4 and the trait COMPUTE_NODE."""
    return make_host(client)


def make_host(client: PlacementClient) -> str:
    uuid = str(uuid4())
    request = client.session.request
    request("POST", "/resource_providers", {"name": f"host-{uuid}", "uuid": uuid})
    inventories = {"VCPU": {"total": 2, "allocation_ratio": 2.0}, "MEMORY_MB": {"total": 8192}}
    more: dict[str, Any] = {"resource_provider_generation": 0, "inventories": inventories}
    request("PUT", f"/resource_providers/{uuid}/inventories", more)
    more = {"resource_provider_generation": 1, "traits": ["COMPUTE_NODE"]}
    request("PUT", f"/resource_providers/{uuid}/traits", more)
    return uuid


def candidate_of(client: PlacementClient, host: str) -> dict[str, Any]:
    """Return what a new consumer is to have on a host, by the candidate of that host's tree."""
    (request,) = client.allocation_candidates(ONE, in_tree=host).allocation_requests
    return {**a_document(host), **request}


def a_document(host: str) -> dict[str, Any]:
    """Return the same without asking whether there is room."""
    owner = {"project_id": "project", "user_id": "user", "consumer_generation": None}
    return {"allocations": {host: {"resources": SMALL}}, **owner}


def test_which_microversions_it_knows(client: PlacementClient) -> None:
    assert client.version().is_enough


def test_a_host_is_read_back(client: PlacementClient, host: str) -> None:
    (found,) = (each for each in client.providers() if each.uuid == host)
    assert (found.name, found.parent_uuid, found.root_uuid) == (f"host-{host}", None, host)
    inventories = client.inventories(host)
    assert {name: each.capacity for name, each in inventories.items()} == {
        "VCPU": 4,
        "MEMORY_MB": 8192,
    }
    assert client.allocations_of(host) == {}


def test_a_candidate_becomes_an_allocation(client: PlacementClient, host: str) -> None:
    consumer = str(uuid4())
    client.post_allocations({consumer: candidate_of(client, host)})
    assert client.allocations_of(host) == {consumer: SMALL}
    found = client.allocations_for(consumer)
    assert found.resources == {host: SMALL}
    assert (found.generation, found.project_id, found.user_id) == (1, "project", "user")
    (amount,) = {
        each.resources["VCPU"]
        for each in client.allocation_candidates(ONE, in_tree=host).provider_summaries.values()
    }
    assert (amount.capacity, amount.used) == (4, 1)
    assert client.delete_allocations(consumer)
    assert not client.delete_allocations(consumer)
    assert client.allocations_for(consumer).resources == {}


def test_candidates_are_of_the_tree_with_the_traits_that_are_asked_for(
    client: PlacementClient, host: str
) -> None:
    other = make_host(client)
    fitting = RequestGroups(
        [RequestGroup(SMALL, required=["COMPUTE_NODE"], forbidden=["COMPUTE_STATUS_DISABLED"])],
        root_required=["COMPUTE_NODE", "!COMPUTE_STATUS_DISABLED"],
    )
    found = client.allocation_candidates(fitting, in_tree=host, limit=10)
    assert found.provider_summaries.keys() == {host}
    anywhere = client.allocation_candidates(fitting)
    assert anywhere.provider_summaries.keys() >= {host, other}
    assert len(client.allocation_candidates(fitting, limit=1).allocation_requests) == 1
    no_trait = RequestGroups([RequestGroup(SMALL, required=["HW_CPU_X86_AVX2"])])
    assert not client.allocation_candidates(no_trait, in_tree=host).allocation_requests


def test_groups_with_suffixes_and_aggregates(client: PlacementClient, host: str) -> None:
    aggregate, other = str(uuid4()), str(uuid4())
    generation = next(each.generation for each in client.providers() if each.uuid == host)
    member = {"aggregates": [aggregate], "resource_provider_generation": generation}
    client.session.request("PUT", f"/resource_providers/{host}/aggregates", member)
    first = RequestGroup({"VCPU": 1}, suffix="_cpu", member_of=[[aggregate, other], [aggregate]])
    second = RequestGroup({"MEMORY_MB": 1}, suffix="_memory", forbidden_aggregates=[other])
    together = RequestGroups([first, second], policy="none", same_subtree=[["_cpu", "_memory"]])
    (request,) = client.allocation_candidates(together, in_tree=host).allocation_requests
    assert request["mappings"] == {"_cpu": [host], "_memory": [host]}
    outside = RequestGroups([RequestGroup(SMALL, forbidden_aggregates=[aggregate])])
    assert not client.allocation_candidates(outside, in_tree=host).allocation_requests


def test_several_consumers_get_all_or_nothing(client: PlacementClient, host: str) -> None:
    consumers = [str(uuid4()) for _ in range(5)]
    documents = {each: candidate_of(client, host) for each in consumers}
    with pytest.raises(PlacementConflict) as caught:
        client.post_allocations(documents)
    assert not caught.value.is_concurrent
    assert "choose another host" in str(caught.value)
    assert client.allocations_of(host) == {}
    client.post_allocations({each: documents[each] for each in consumers[:4]})
    assert client.allocations_of(host).keys() == {*consumers[:4]}


def test_who_knows_an_old_generation_has_a_conflict(client: PlacementClient, host: str) -> None:
    consumer = str(uuid4())
    document = candidate_of(client, host)
    client.post_allocations({consumer: document})
    with pytest.raises(PlacementConflict) as caught:
        client.post_allocations({consumer: document})
    assert caught.value.is_concurrent
    assert "read the allocations again and repeat the request" in str(caught.value)
    generation = client.allocations_for(consumer).generation
    client.post_allocations({consumer: {**document, "consumer_generation": generation}})


def test_what_is_wrong_with_a_document_is_said(client: PlacementClient) -> None:
    consumer = str(uuid4())
    with pytest.raises(PlacementRefused, match=r"POST http://\S+/placement/allocations \(HTTP 400"):
        client.post_allocations({consumer: a_document(str(uuid4()))})
    with pytest.raises(PlacementRefused, match="HTTP 404") as caught:
        client.inventories(str(uuid4()))
    assert caught.value.status == 404


def test_an_account_without_the_role_is_named(ask: Ask) -> None:
    with pytest.raises(PlacementUnavailable, match="lacks the role that Placement's policy asks"):
        ask(token="somebody").providers()


def test_a_wrong_endpoint_is_named(ask: Ask, placement: Placement) -> None:
    client = ask(endpoint=f"{placement.url}/nothing")
    with pytest.raises(PlacementUnavailable, match=r"check \[placement\] endpoint_override"):
        client.providers()
    with pytest.raises(PlacementUnavailable, match=r"check \[placement\] endpoint_override"):
        client.version()


def test_an_outage_is_an_error_in_time_and_then_it_goes_on(
    client: PlacementClient, ask: Ask, host: str, placement: Placement
) -> None:
    hurried = ask(timeout=1)

    def answers() -> bool:
        with suppress(PlacementUnavailable):
            return hurried.allocations_of(host) == {}
        return False

    placement.stop()
    try:
        with pytest.raises(PlacementUnavailable, match=r"refused; check section \[placement\]"):
            client.allocations_of(host)
    finally:
        placement.start()
    assert client.allocations_of(host) == {}
    assert wait_until(answers)
    placement.pause()
    try:
        with pytest.raises(PlacementUnavailable, match="no answer within 1 s"):
            hurried.allocations_of(host)
    finally:
        placement.resume()
    assert wait_until(answers)


def test_threads_never_get_more_than_there_is(client: PlacementClient, host: str) -> None:
    def take(consumer: str) -> bool:
        try:
            client.post_allocations({consumer: a_document(host)})
        except PlacementConflict as error:
            return error.is_concurrent and take(consumer)
        return True

    with ThreadPoolExecutor(6) as pool:
        got = list(pool.map(take, [str(uuid4()) for _ in range(8)]))
    assert got.count(True) == 4
    assert len(client.allocations_of(host)) == 4


def test_its_allocations_are_audited(client: PlacementClient, host: str) -> None:
    """As the instances of this host; what other tests wrote is not looked at."""
    there, elsewhere, left = (str(uuid4()) for _ in range(3))
    other = make_host(client)
    places = {there: host, left: host, elsewhere: other}
    client.post_allocations({consumer: a_document(each) for consumer, each in places.items()})
    nova = NovaRecords(
        nodes={host: "h1", other: "h2"},
        instances=[AuditedInstance(each, host, 1, 512) for each in (there, elsewhere)],
    )
    everything = client.records()
    here = {each: everything.allocations[each] for each in (host, other)}
    placement = PlacementRecords(here, everything.roots)
    found = [(each.kind, each.consumer_uuid) for each in audit(nova, placement)]
    assert found == [(Kind.ELSEWHERE, elsewhere), (Kind.LEFT_OVER, left)]
