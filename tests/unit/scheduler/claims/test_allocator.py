# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.claims.allocator: what it does while Placement fails and others write.

A real Placement is asked in tests/functional/test_allocations.py; here one fails as it is told.
"""

import math
import threading

import pytest

from inventory.claims.types import ClaimLost
from inventory.nova.candidates import Candidates
from inventory.nova.placement import ConsumerAllocations
from inventory.nova.placement_errors import (
    PlacementConflict,
    PlacementRefused,
    PlacementUnavailable,
)
from scheduler.claims import allocator
from scheduler.claims.allocator import UNKNOWN_TO_PLACEMENT, Allocator
from scheduler.claims.implied_traits import TPM_SECRETS
from scheduler.claims.placement_scope import PlacementScope
from scheduler.objects.flavor_and_image import Flavor
from scheduler.objects.selection import Selection
from scheduler.wire.errors import NoValidHost
from tests.builders import a_request
from tests.fixtures.daemons.process import PATIENCE

MEMORY_MB = 2048
ASKED = {"MEMORY_MB": MEMORY_MB, "VCPU": 2}
CONCURRENT = PlacementConflict("POST", "generation", is_concurrent=True)
NO_ROOM = PlacementConflict("POST", "no room", is_concurrent=False)
REFUSED = PlacementRefused("GET", "no such trait", 400)


def away(may_be_done=False, is_transient=True):
    return PlacementUnavailable("GET", "no answer", "start it", is_transient, may_be_done)


class ScriptedPlacement:
    """Placement with nodes of one instance's room each; errors come before what would succeed."""

    def __init__(self, *nodes):
        self.nodes = {*nodes}
        self.has = {}
        self.traits = ()
        self.errors = []
        self.asked, self.posted = [], []
        self.hangs = None

    def allocation_candidates(self, groups, limit=None, in_tree=None):
        self.asked.append(in_tree)
        self._fail()
        nodes = [each for each in sorted(self.nodes) if in_tree in (None, each)]
        return Candidates.from_json(
            {
                "allocation_requests": [
                    {"allocations": {each: {"resources": ASKED}}, "mappings": {"": [each]}}
                    for each in nodes
                ],
                "provider_summaries": {
                    each: {
                        "resources": {n: {"capacity": a, "used": 0} for n, a in ASKED.items()},
                        "traits": [],
                        "parent_provider_uuid": None,
                        "root_provider_uuid": each,
                    }
                    for each in nodes
                },
            }
        )

    def reported_traits(self, prefix):
        return frozenset(each for each in self.traits if each.startswith(prefix))

    def allocations_for(self, uuid):
        found, generation = self.has.get(uuid, ({}, None))
        return ConsumerAllocations(found, generation, None, None)

    def post_allocations(self, documents):
        self.posted.append(documents)
        if self.hangs:
            self.hangs.wait(PATIENCE)
        self._fail()
        for uuid, each in documents.items():
            new = {node: given["resources"] for node, given in each["allocations"].items()}
            self.has[uuid] = new, (each["consumer_generation"] or 0) + 1

    def _fail(self):
        if self.errors:
            raise self.errors.pop(0)


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(allocator, "_PAUSE", 0.001)
    monkeypatch.setattr(allocator, "_LONGEST_PAUSE", 0.002)
    monkeypatch.setattr(allocator, "PATIENCE", 0.05)
    monkeypatch.setattr(allocator, "OPTIONAL_PATIENCE", 0.05)


def a_spec(**extra_specs):
    flavor = Flavor(vcpus=2, memory_mb=MEMORY_MB, root_gb=0, extra_specs=extra_specs)
    return a_request(flavor=flavor)


def on(*nodes):
    """Return an answer with an instance on each of these nodes."""
    return [[Selection(f"host of {each}", each, compute_node_uuid=each)] for each in nodes]


def left(seconds=math.inf):
    return lambda: seconds


def allocated(placement, answer, spec=None, is_required=True, repeated=False, seconds=math.inf):
    """Begin, offer and allocate for instances i0, i1 and so on; return the request."""
    tested = Allocator(placement, is_required)
    asked = tested.begin(spec or a_spec(), left(seconds))
    offered = tested.offer(asked, answer, left(seconds))
    answers = {f"i{number}": each for number, each in enumerate(offered)}
    tested.allocate(asked, answers, left(seconds), repeated)
    return asked


def test_a_plain_request_is_one_question():
    placement = ScriptedPlacement("n1", "n2")
    allocated(placement, on("n1", "n2"))
    assert (placement.asked, len(placement.posted)) == ([], 1)
    assert placement.has == {"i0": ({"n1": ASKED}, 1), "i1": ({"n2": ASKED}, 1)}


def test_a_trait_is_asked_for_before_anything_is_decided():
    placement = ScriptedPlacement("n2")
    tested = Allocator(placement)
    spec = a_spec(**{"trait:CUSTOM_FAST": "required"})
    restricted = tested.begin(spec, left()).restrict(spec)
    assert (restricted.offered_nodes, restricted.needs_placement) == ({"n2"}, True)
    assert placement.asked == [None]


FORCED = a_request(flavor=a_spec().flavor, force_hosts=["h1"])
ON_ONE = PlacementScope(["n1"], is_unlimited=True, refuses_disabled=False)


def test_of_a_forced_host_it_is_asked_first_and_of_no_other():
    placement = ScriptedPlacement("n1", "n2")
    asked = Allocator(placement).begin(FORCED, left(), ON_ONE)
    restricted = asked.restrict(FORCED)
    # Filters judge where else it could go.
    assert (restricted.offered_nodes, restricted.needs_placement) == ({"n1"}, False)
    assert placement.asked == ["n1"]


def test_without_placement_a_host_is_forced_only_where_allocations_are_optional():
    placement = ScriptedPlacement("n1")
    placement.errors = [away()] * 1000
    with pytest.raises(PlacementUnavailable):
        Allocator(placement).begin(FORCED, left(), ON_ONE)
    asked = Allocator(placement, is_required=False).begin(FORCED, left(), ON_ONE)
    assert asked.is_away
    assert asked.restrict(FORCED).offered_nodes is None


def test_without_a_filter_for_disabled_hosts_it_is_asked_about_the_chosen_ones():
    placement = ScriptedPlacement("n2")
    tested = Allocator(placement)
    asked = tested.begin(a_spec(), left(), PlacementScope(refuses_disabled=False))
    with pytest.raises(ClaimLost):
        tested.offer(asked, on("n1"), left())
    assert placement.asked == ["n1"]


@pytest.mark.parametrize("reported", [(), (f"{TPM_SECRETS}HOST",)])
def test_the_secret_of_a_tpm_matters_where_computes_report_how_they_keep_it(reported):
    placement = ScriptedPlacement("n1")
    placement.traits = ("CUSTOM_FAST", *reported)
    asked = Allocator(placement).begin(a_spec(**{"hw:tpm_version": "2.0"}), left())
    required = [each for each in asked.groups.root_required if each.startswith(TPM_SECRETS)]
    assert required == ([f"{TPM_SECRETS}USER"] if reported else [])


def test_what_placement_has_never_heard_of_is_no_valid_host():
    placement = ScriptedPlacement()
    placement.errors = [REFUSED]
    with pytest.raises(NoValidHost, match=UNKNOWN_TO_PLACEMENT):
        Allocator(placement).begin(a_spec(**{"trait:CUSTOM_FAST": "required"}), left())


def test_a_host_without_room_is_passed_over_and_after_two_it_is_asked_about_all():
    placement = ScriptedPlacement("n3")
    tested = Allocator(placement)
    spec = a_spec()
    asked = tested.begin(spec, left())
    asked.ask_again()
    for node in ("n1", "n2"):
        with pytest.raises(ClaimLost):
            tested.offer(asked, on(node), left())
    assert placement.asked == ["n1", "n2", None]
    assert asked.restrict(spec).offered_nodes == {"n3"}


@pytest.mark.parametrize("error", [NO_ROOM, REFUSED])
def test_when_there_is_no_room_any_more_the_claim_is_lost_and_the_host_asked_about(error):
    placement = ScriptedPlacement("n1")
    tested = Allocator(placement)
    asked = tested.begin(a_spec(), left())
    (answer,) = tested.offer(asked, on("n1"), left())
    placement.errors = [error]
    with pytest.raises(ClaimLost):
        tested.allocate(asked, {"i0": answer}, left())
    assert not placement.has
    tested.offer(asked, on("n1"), left())
    assert placement.asked == ["n1"]


def test_what_an_instance_has_elsewhere_stays_its_own():
    placement = ScriptedPlacement("n1")
    placement.has["i0"] = {"n9": ASKED}, 7
    placement.errors = [CONCURRENT]
    allocated(placement, on("n1"))
    assert placement.has["i0"] == ({"n9": ASKED, "n1": ASKED}, 8)


def test_what_is_written_already_is_not_written_again():
    """Somebody has written it, perhaps we, whose answer was lost."""
    placement = ScriptedPlacement("n1")
    placement.has["i0"] = {"n1": ASKED}, 1
    placement.errors = [CONCURRENT]
    allocated(placement, on("n1"))
    assert len(placement.posted) == 1


def test_a_repeated_answer_leaves_what_has_moved_meanwhile():
    placement = ScriptedPlacement("n1", "n2")
    placement.has["i0"] = {"n9": ASKED}, 7
    placement.errors = [CONCURRENT]
    allocated(placement, on("n1", "n2"), repeated=True)
    assert placement.has == {"i0": ({"n9": ASKED}, 7), "i1": ({"n2": ASKED}, 1)}


def test_allocations_that_always_change_are_given_up():
    placement = ScriptedPlacement("n1")
    placement.errors = [CONCURRENT] * allocator.ATTEMPTS
    with pytest.raises(ClaimLost, match="again and again"):
        allocated(placement, on("n1"))
    assert len(placement.posted) == allocator.ATTEMPTS


def test_a_restart_of_placement_is_waited_for():
    placement = ScriptedPlacement("n1")
    placement.errors = [away(), away(), away()]
    assert not allocated(placement, on("n1")).is_away
    assert placement.has["i0"] == ({"n1": ASKED}, 1)


def test_without_placement_a_request_fails_unless_allocations_are_optional():
    placement = ScriptedPlacement("n1")
    placement.errors = [away()] * 1000
    with pytest.raises(PlacementUnavailable):
        allocated(placement, on("n1"))
    assert allocated(placement, on("n1"), is_required=False).is_away
    assert not placement.has


def test_what_may_be_written_is_never_given_up_as_absent():
    """Optional or not: the claim of the request stays until its lease ends."""
    placement = ScriptedPlacement("n1")
    placement.errors = [away(may_be_done=True, is_transient=False)]
    with pytest.raises(PlacementUnavailable) as caught:
        allocated(placement, on("n1"), is_required=False)
    assert caught.value.may_be_done


def test_what_may_be_written_is_written_until_the_deadline():
    """Not only while a restart takes: afterwards it is known."""
    placement = ScriptedPlacement("n1")
    placement.errors = [away(may_be_done=True), *[away()] * 60]
    allocated(placement, on("n1"), seconds=60.0)
    assert placement.has["i0"] == ({"n1": ASKED}, 1)


def test_no_answer_before_the_deadline_of_the_caller():
    placement = ScriptedPlacement("n1")
    placement.hangs = threading.Event()
    with pytest.raises(PlacementUnavailable, match="deadline") as caught:
        allocated(placement, on("n1"), seconds=0.05)
    assert caught.value.may_be_done
    placement.hangs.set()
