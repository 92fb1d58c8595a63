# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.claims.placement_request: how instances share what Placement offers."""

import json

from hypothesis import given
from hypothesis import strategies as st

from inventory.nova.candidates import Candidates, RequestGroup, RequestGroups
from scheduler.claims.placement_request import NOBODY, PlacementRequest, TreeOffer, offers_by_tree
from scheduler.objects.selection import Selection
from tests.builders import a_request

ASKED = RequestGroups([RequestGroup({"VCPU": 2})])


def an_offer(free, *allocations):
    """Return an offer of so much of a resource per provider, and where requests would come from."""
    requests = [
        {"allocations": {provider: {"resources": {"VCPU": amount}}}, "mappings": {"": [provider]}}
        for provider, amount in allocations
    ]
    return TreeOffer(requests, {(provider, "VCPU"): amount for provider, amount in free.items()})


def asked(**offers):
    return PlacementRequest(ASKED, "project1", "user1", offers=offers)


def a_host(uuid):
    return Selection(f"host of {uuid}", "node", compute_node_uuid=uuid)


def providers(answer):
    """Return the providers in the allocation request of each selection."""
    return [
        [[*json.loads(each.allocation_request)["allocations"]] for each in selections]
        for selections in answer
    ]


def test_each_instance_gets_its_share():
    offer = an_offer({"a": 4}, ("a", 2))
    answer = asked(n1=offer).share([[a_host("n1")], [a_host("n1")]])
    assert providers(answer) == [[["a"]], [["a"]]]
    assert answer[0][0].allocation_request_version == "1.36"


def test_a_node_without_room_for_all_of_its_instances_is_refused():
    request = asked(n1=an_offer({"a": 3}, ("a", 2)), n2=an_offer({"b": 2}, ("b", 2)))
    assert request.share([[a_host("n1")], [a_host("n2")], [a_host("n1")]]) is None
    spec = request.restrict(a_request())
    assert (spec.offered_nodes, spec.refused_nodes) == (None, {"n1"})


def test_instances_use_several_providers_of_a_tree_before_they_are_refused():
    offer = an_offer({"a": 2, "b": 2}, ("a", 2), ("b", 2))
    assert providers(asked(n1=offer).share([[a_host("n1")], [a_host("n1")]])) == [[["a"]], [["b"]]]


def test_alternates_without_room_are_left_out_and_each_counts_by_itself():
    request = asked(
        n1=an_offer({"a": 4}, ("a", 2)), n2=TreeOffer(), n3=an_offer({"c": 2}, ("c", 2))
    )
    rest = [a_host("n2"), a_host("n3")]
    answer = request.share([[a_host("n1"), *rest], [a_host("n1"), *rest]])
    assert providers(answer) == [[["a"], ["c"]], [["a"], ["c"]]]
    assert not request.refused


def test_a_request_that_placement_has_not_restricted_stays_as_it_is():
    spec = a_request()
    assert asked().restrict(spec) is spec


def test_what_is_offered_at_all_restricts_the_nodes():
    summaries = {
        uuid: {
            "resources": {"VCPU": {"capacity": 4, "used": 1}},
            "traits": [],
            "parent_provider_uuid": None if uuid == root else root,
            "root_provider_uuid": root,
        }
        for uuid, root in {"n1": "n1", "card": "n1", "n2": "n2"}.items()
    }
    candidates = Candidates.from_json(
        {
            "allocation_requests": [
                {"allocations": {each: {"resources": {"VCPU": 2}} for each in ("n1", "card")}}
            ],
            "provider_summaries": summaries,
        }
    )
    request = asked()
    request.only(candidates)
    assert request.restrict(a_request()).offered_nodes == {"n1"}
    assert request.missing([[a_host("n1"), a_host("n2")]]) == ["n2"]
    assert request.offers["n1"].free["card", "VCPU"] == 3


def test_a_document_names_the_owner_and_a_new_consumer():
    (((selection,),)) = asked(n1=an_offer({"a": 2}, ("a", 2))).share([[a_host("n1")]])
    assert asked().document(selection) == {
        "allocations": {"a": {"resources": {"VCPU": 2}}},
        "mappings": {"": ["a"]},
        "project_id": "project1",
        "user_id": "user1",
        "consumer_generation": None,
    }
    assert asked().document(a_host("n1")) is None
    nobodys = PlacementRequest(ASKED).document(selection)
    assert (nobodys["project_id"], nobodys["user_id"]) == (NOBODY, NOBODY)


@given(
    free=st.dictionaries(st.sampled_from("abc"), st.integers(0, 9), min_size=1),
    amount=st.integers(1, 4),
    instances=st.integers(1, 12),
)
def test_shares_never_exceed_what_is_free_and_use_it(free, amount, instances):
    offer = an_offer(free, *((provider, amount) for provider in sorted(free)))
    found = offer.shares(instances)
    room = sum(each // amount for each in free.values())
    assert len(found) == (instances if instances <= room else 0)
    for provider, each in free.items():
        taken = sum(provider in request["allocations"] for request in found)
        assert taken * amount <= each


def test_no_candidate_is_no_offer():
    assert offers_by_tree(Candidates()) == {}
