# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Our requests in the forms of older releases, beside those of Nova's own client."""

import json
from dataclasses import replace

import pytest
from hypothesis import given

from scheduler.wire.arguments import (
    SelectArguments,
    decode_select_arguments,
    encode_select_arguments,
)
from scheduler.wire.legacy_requests import SENT, downgraded, newest_version
from tests.builders import INSTANCE, a_group, a_request
from tests.unit.scheduler.wire import wire_samples
from tests.unit.scheduler.wire.expressible import as_nova_holds_it, in_dicts_of
from tests.unit.scheduler.wire.releases import NEWEST
from tests.unit.scheduler.wire.strategies import requests

OTHER = "00000000-0000-0000-1111-000000000002"
# Of the image, in Nova's dictionaries, without a zone.
MOMENTS = {"created_at", "updated_at"}


def arguments(spec, *uuids):
    return encode_select_arguments(SelectArguments(spec, list(uuids), True, True))


@pytest.mark.parametrize(
    ("cap", "version"),
    [
        (None, (4, 5)),
        ((4, 6), (4, 5)),
        ((4, 5), (4, 5)),
        ((4, 4), (4, 4)),
        ((4, 3), (4, 3)),
        ((4, 2), (4, 0)),
        ((4, 0), (4, 0)),
        ((3, 9), None),
        ((5, 0), None),
    ],
)
def test_the_ladder_of_nova_s_client(cap, version):
    assert newest_version(cap) == version


@pytest.mark.parametrize("version", SENT)
def test_each_version_has_the_arguments_that_nova_sends(version):
    sample = "call_select_destinations_" + ".".join(map(str, version))
    if version == SENT[0]:
        sample += "_objects_alternates"
    sent = downgraded(arguments(a_request(), INSTANCE), version)
    assert sent.keys() == wire_samples.arguments(sample).keys()


def test_without_uuids_the_first_and_the_number_are_sent():
    whole = arguments(a_request(num_instances=7), OTHER, INSTANCE)
    decoded = decode_select_arguments(downgraded(whole, (4, 3)))
    assert decoded.instance_uuids == [OTHER, None]
    assert decode_select_arguments(downgraded(whole, (4, 0))).instance_uuids == [OTHER, None]
    assert whole == arguments(a_request(num_instances=7), OTHER, INSTANCE)


def test_what_names_no_instances_is_left_as_it_is():
    whole = arguments(a_request(num_instances=3, instance_uuid=None), None, None, None)
    assert decode_select_arguments(downgraded(whole, (4, 3))).instance_uuids == [None] * 3


def test_the_dictionaries_are_those_of_nova():
    whole = decode_select_arguments(
        wire_samples.arguments("call_select_destinations_4.5_full_spec")
    )
    ours = downgraded(encode_select_arguments(whole), (4, 0))
    novas = wire_samples.arguments("call_select_destinations_4.0_full_spec")
    assert known_parts(ours["filter_properties"]) == known_parts(novas["filter_properties"])
    assert known_parts(ours["request_spec"]) == known_parts(novas["request_spec"])


def known_parts(value):
    """Return what a dictionary says: without what we do not know, and bookkeeping."""
    if isinstance(value, list):
        return [known_parts(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.get("nova_object.name") == "CellMapping":
        return value["nova_object.data"]["uuid"]
    return {
        key: known_parts(each)
        for key, each in value.items()
        if key != "nova_object.changes" and key not in MOMENTS
    }


def test_what_is_not_asked_for_is_not_sent():
    dictionaries = downgraded(arguments(a_request(), INSTANCE), (4, 0))
    assert dictionaries["filter_properties"] == {"limits": {}}
    assert dictionaries["request_spec"]["image"] == {}


def test_a_group_without_a_uuid_has_none():
    spec = a_request(instance_group=a_group(uuid=None))
    properties = downgraded(arguments(spec, INSTANCE), (4, 0))["filter_properties"]
    assert properties["group_updated"] is True
    assert properties["group_policies"] == ["anti-affinity"]
    assert "group_uuid" not in properties


@given(requests)
def test_any_request_is_understood_as_far_as_the_dictionaries_go(drawn):
    # How many there are is said by their uuids.
    spec = replace(as_nova_holds_it(drawn), num_instances=1)
    sent = json.loads(json.dumps(downgraded(arguments(spec, spec.instance_uuid), (4, 0))))
    assert decode_select_arguments(sent).spec == in_dicts_of(spec, NEWEST)
