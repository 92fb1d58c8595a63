# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What a caller asks becomes a request, or is refused before anything is decided."""

import logging

import pytest

from scheduler.decision.pipeline import Request
from scheduler.objects.request_spec import RequestGroup
from scheduler.select_destinations.request_builder import build_request, name_instances
from scheduler.wire.arguments import SelectArguments, decode_select_arguments
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import NoValidHost
from tests.builders import INSTANCE, a_request
from tests.unit.scheduler.wire import wire_samples

REASON = "Resources of ports or accelerators are requested, which only placement can allocate."
REBUILD = {"_nova_check_type": ["rebuild"]}
# Two of one port, and one that names nobody.
GROUPS = [RequestGroup(requester_id="port1"), RequestGroup(requester_id="port1"), RequestGroup()]


def requested(database, **changes):
    asked = SelectArguments(a_request(**changes), [INSTANCE])
    return build_request(asked, RequestContext(request_id="req-1"), database, 3)


def test_what_only_placement_can_allocate_is_refused(database, caplog):
    with caplog.at_level(logging.INFO), pytest.raises(NoValidHost) as refused:
        requested(database, requested_resources=GROUPS)
    assert refused.value.reason == REASON
    assert caplog.messages == [
        "Refused request req-1: it has 3 groups of resources of 1 port or accelerator, which only"
        " placement can allocate"
    ]


def test_the_captured_request_for_everything_is_refused(database):
    asked = decode_select_arguments(
        wire_samples.arguments("call_select_destinations_4.5_full_spec")
    )
    with pytest.raises(NoValidHost, match=REASON):
        build_request(asked, RequestContext(), database, 3)
    asked.spec.requested_resources = []
    assert build_request(asked, RequestContext(), database, 3).spec is asked.spec


def test_a_rebuild_keeps_what_was_allocated(database, caplog):
    with caplog.at_level(logging.INFO):
        found = requested(database, requested_resources=GROUPS, scheduler_hints=REBUILD)
    assert found.spec.requested_resources == GROUPS
    assert not caplog.messages


@pytest.mark.parametrize(
    ("objects", "alternates", "expected"), [(True, True, 2), (True, False, 0), (False, True, 0)]
)
def test_alternates_are_for_those_who_can_read_them(database, objects, alternates, expected):
    asked = SelectArguments(a_request(), [INSTANCE], objects, alternates)
    assert build_request(asked, RequestContext(), database, 3).alternates == expected


def named(uuids, request_id="req-1", digest="digest"):
    return name_instances(Request(a_request(), uuids), request_id, digest).instance_uuids


def test_an_instance_without_a_name_gets_the_same_one_each_time():
    first, second, third = named([None, INSTANCE, None])
    assert second == INSTANCE
    assert len({first, second, third}) == 3
    assert [len(each) for each in (first, third)] == [36, 36]
    assert named([None, INSTANCE, None]) == [first, second, third]
    others = named([None], digest="other") + named([None], request_id="req-2")
    assert {first, third}.isdisjoint(others)
    assert len({*others}) == 2


def test_there_are_no_names_where_the_same_request_cannot_be_recognized():
    assert named([INSTANCE, None], request_id=None) == [INSTANCE, None]
