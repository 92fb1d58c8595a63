# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of which instances are protected, and of what is read for them."""

import pytest

from inventory.objects.standby import EXTRA_SPEC, Protection
from inventory.objects.standby_sums import NodeSums
from scheduler.claims.protection import (
    KnownSums,
    ProtectionSettings,
    build_standbys,
    protected,
    refuse_unprotected,
    request_from_text,
    request_to_text,
)
from scheduler.decision.pipeline import Request
from scheduler.decision.types import Placement
from scheduler.hosts.host_state import Candidate
from scheduler.objects.request_spec import SchedulerRetries, TriedHost
from scheduler.wire.errors import InvalidInput, NoValidHost
from tests.builders import INSTANCE, a_group, a_request

UNPROTECTED = ProtectionSettings()


class Reads:
    """A database without a standby, that counts how often it is read."""

    def __init__(self, mode=None):
        self.mode, self.number = mode, 0

    def read(self, work):
        self.number += 1
        found = {"read_sums": NodeSums(), "read_protection": "all", "mode_of": self.mode, "of": []}
        return found[getattr(work, "func", work).__name__]


def mode_of(text=None, project="project1", **settings):
    specs = {} if text is None else {EXTRA_SPEC: text}
    return ProtectionSettings(**settings).mode_of(a_request(extra_specs=specs, project_id=project))


def asked(reads, settings=UNPROTECTED, fresh=False, **changes):
    request = Request(a_request(**changes), [INSTANCE])
    return protected(request, settings, reads, KnownSums(), fresh).protection


def test_a_flavor_says_it_and_else_the_options():
    assert mode_of() is None
    assert mode_of("required") == "required"
    assert mode_of(mode="preferred") == "preferred"
    assert mode_of("required", mode="preferred") == "required"
    assert mode_of("none", mode="required") is None


def test_the_options_may_be_about_some_projects():
    only = {"mode": "required", "projects": frozenset({"project1"})}
    assert mode_of(**only) == "required"
    assert mode_of(project="project2", **only) is None
    assert mode_of("preferred", project="project2", **only) == "preferred"


def test_a_flavor_with_another_word_is_refused():
    with pytest.raises(InvalidInput) as raised:
        mode_of("always")
    assert "berthmaster:failover is 'always', not one of none, preferred, required" in str(
        raised.value
    )


def test_an_ordinary_request_reads_nothing():
    reads = Reads()
    assert asked(reads) is None
    assert reads.number == 0


def test_a_first_placement_reads_what_all_nodes_hold_and_nothing_else():
    reads = Reads()
    assert asked(reads, ProtectionSettings("required")) == Protection("required", NodeSums())
    assert reads.number == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"fresh": True},
        {"ignore_hosts": ["h1"]},
        {"retry": SchedulerRetries(1, [TriedHost("h1", "h1")])},
    ],
)
def test_what_may_have_standbys_or_keep_off_them_reads_these(changes):
    assert asked(Reads(), ProtectionSettings("required"), **changes) == "all"


def test_a_move_is_protected_as_the_instance_was():
    assert asked(Reads(), ignore_hosts=["h1"]) is None
    assert asked(Reads("required"), ignore_hosts=["h1"]) == "all"


def test_of_a_project_with_reservations_places_may_be_protected():
    request, reads = Request(a_request(), [INSTANCE]), Reads()
    found = protected(request, UNPROTECTED, reads, KnownSums(), False, reserving=True)
    assert found.protection == Protection("none", NodeSums())


def test_sums_are_used_for_a_while_unless_they_have_to_be_fresh():
    known, reads = KnownSums(), Reads()
    first = known.get(reads, False)
    known._until = float("inf")
    assert known.get(reads, False) is first
    assert reads.number == 1
    known.get(reads, True)
    assert reads.number == 2


def test_a_driver_that_protects_nothing_is_no_reason_to_promise():
    chosen = Candidate(0, "h1", "h1", None, None, {}, 0.0)
    placements = [Placement(INSTANCE, chosen, (), ())]
    assert build_standbys(a_request(), "preferred", placements, dict) == []
    with pytest.raises(NoValidHost):
        build_standbys(a_request(), "required", placements, dict)


def test_without_claims_what_requires_a_standby_is_refused():
    specs = {EXTRA_SPEC: "required"}
    with pytest.raises(NoValidHost):
        refuse_unprotected(a_request(extra_specs=specs))
    refuse_unprotected(a_request(extra_specs={EXTRA_SPEC: "preferred"}))
    hints = {"_nova_check_type": ["rebuild"]}
    refuse_unprotected(a_request(extra_specs=specs, scheduler_hints=hints))


def test_a_request_is_kept_as_text():
    spec = a_request(instance_group=a_group())
    assert request_from_text(request_to_text(spec)) == spec
    with pytest.raises(ValueError, match="not a request"):
        request_from_text('{"any": 1}')
