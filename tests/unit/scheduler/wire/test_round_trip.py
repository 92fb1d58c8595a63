# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What we write, we read back."""

import json

from hypothesis import given

from scheduler.wire.request_schema import REQUEST_SPEC
from tests.unit.scheduler.wire import wire_samples
from tests.unit.scheduler.wire.strategies import requests


@given(requests)
def test_any_request_survives_the_wire(spec):
    primitive = json.loads(json.dumps(REQUEST_SPEC.write(spec)))
    assert REQUEST_SPEC.read(primitive) == spec


def test_we_write_the_fields_and_versions_of_the_newest_release():
    captured = wire_samples.primitive("obj_request_spec_full")
    written = REQUEST_SPEC.write(REQUEST_SPEC.read(captured))
    assert _versions(written) == _versions(captured)
    assert written["nova_object.data"].keys() == captured["nova_object.data"].keys()


def _versions(primitive):
    """Return the version of every object in the primitive, by class."""
    found = {}
    if isinstance(primitive, dict):
        if "nova_object.name" in primitive:
            found[primitive["nova_object.name"]] = primitive["nova_object.version"]
        primitive = list(primitive.values())
    if isinstance(primitive, list):
        for each in primitive:
            found |= _versions(each)
    return found
