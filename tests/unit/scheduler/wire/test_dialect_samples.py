# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The encoders of dialects.py say what Nova said, when it was recorded with the same request."""

from dataclasses import replace
from typing import Any

import pytest

from scheduler.wire.arguments import decode_select_arguments
from scheduler.wire.request_schema import REQUEST_SPEC
from tests.unit.scheduler.wire import wire_samples
from tests.unit.scheduler.wire.contexts import in_newest, in_newton
from tests.unit.scheduler.wire.dialects import (
    DATA,
    NAME,
    as_dicts,
    as_flattened_dicts,
    as_json,
    as_object,
)
from tests.unit.scheduler.wire.expressible import in_dicts_of, in_objects_of
from tests.unit.scheduler.wire.recorded import (
    ALICE,
    ALICE_TODAY,
    BUILT_BY_34,
    BUILT_BY_NEWTON,
    BUILT_PLAINLY_BY_34,
    FULL,
    FULL_OF_NEWTON,
    MINIMAL,
    PLAIN_OF_NEWTON,
)
from tests.unit.scheduler.wire.releases import NEWEST, NEWTON

# What nobody reads, of those classes that have such a thing; the page about the wire says why.
_UNUSED = {
    "CellMapping": {
        "id",
        "transport_url",
        "database_connection",
        "disabled",
        "created_at",
        "updated_at",
    },
    "Flavor": {"created_at", "updated_at", "deleted", "deleted_at"},
    "InstanceGroup": {"created_at", "updated_at", "deleted", "deleted_at"},
    "InstanceNUMACell": {"cpu_topology"},
}
# The same in flattened objects, where it is null or false.
_UNUSED_FLAT = set.union(*_UNUSED.values()) - {"id", "disabled"}
_OF_THE_INSTANCE = {
    "uuid",
    "project_id",
    "user_id",
    "availability_zone",
    "numa_topology",
    "pci_requests",
    "root_gb",
    "ephemeral_gb",
    "memory_mb",
    "vcpus",
    "flavor",
}


def essence(tree: Any) -> Any:
    """Return a message without what says nothing: changed fields, unused ones, a lack of tags."""
    if isinstance(tree, list):
        return [essence(each) for each in tree]
    if not isinstance(tree, dict):
        return tree
    if NAME in tree:
        unused = _UNUSED.get(tree[NAME], set())
        data = {name: essence(each) for name, each in tree[DATA].items() if name not in unused}
        if tree[NAME] == "InstanceGroup" and "policy" not in data:
            # Newton does not know the rules; the newest release leaves them when it downgrades.
            data.pop("_rules", None)
        tree = {name: each for name, each in tree.items() if name != "nova_object.changes"}
        return tree | {DATA: {name: each for name, each in data.items() if name != "tags" or each}}
    return {
        name: essence(each)
        for name, each in tree.items()
        if not (name in _UNUSED_FLAT and not each) and not (name == "tags" and not each)
    }


def dicts(sample: dict[str, Any]) -> dict[str, Any]:
    """Return the dictionaries of a sample, of an instance what 4.0 is about."""
    found = {name: sample[name] for name in ("request_spec", "filter_properties") if name in sample}
    properties = found["request_spec"]["instance_properties"]
    found["request_spec"]["instance_properties"] = {
        name: each for name, each in properties.items() if name in _OF_THE_INSTANCE
    }
    return found


@pytest.mark.parametrize(("size", "spec"), [("minimal", MINIMAL), ("full", FULL)])
@pytest.mark.parametrize(
    "release", ["newton", "ocata", "pike", "queens", "rocky", "train", "ussuri", "xena", NEWEST]
)
def test_objects_of_each_release(size, spec, release):
    name = f"obj_request_spec_{size}" + (f"_as_{release}" if release != NEWEST else "")
    said = as_json(as_object(spec, release))
    captured = wire_samples.primitive(name)
    assert essence(said) == essence(captured)
    expected = in_objects_of(spec, release)
    assert REQUEST_SPEC.read(said) == expected
    if expected.instance_group is not None:
        # See essence(): what is left there counts.
        expected.instance_group.rules = FULL.instance_group.rules
    assert REQUEST_SPEC.read(captured) == expected


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("call_newton_select_destinations_4.3", PLAIN_OF_NEWTON),
        ("call_newton_select_destinations_4.3_full", FULL_OF_NEWTON),
        (
            "call_newton_select_destinations_4.3_two_instances",
            replace(PLAIN_OF_NEWTON, num_instances=2),
        ),
        (
            "call_newton_select_destinations_4.3_novalidhost",
            replace(PLAIN_OF_NEWTON, scheduler_hints={"test": ["no-hosts"]}),
        ),
    ],
)
def test_calls_of_newton(name, spec):
    captured = wire_samples.arguments(name)
    assert essence(as_json({"spec_obj": as_object(spec, NEWTON)})) == essence(captured)
    assert decode_select_arguments(captured).spec == spec


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("call_select_destinations_4.3", replace(MINIMAL, num_instances=2)),
        ("call_select_destinations_4.4", replace(MINIMAL, num_instances=2)),
        ("call_select_destinations_4.5_objects_alternates", MINIMAL),
        ("call_select_destinations_4.5_full_spec", FULL),
    ],
)
def test_calls_of_the_newest_release(name, spec):
    captured = wire_samples.arguments(name)
    assert essence(as_json(as_object(spec, NEWEST))) == essence(captured["spec_obj"])
    assert decode_select_arguments(captured).spec == spec


@pytest.mark.parametrize(
    ("name", "spec", "release"),
    [
        ("call_select_destinations_4.0", replace(MINIMAL, num_instances=2), NEWEST),
        ("call_select_destinations_4.0_via_liberty_cap", MINIMAL, NEWEST),
        ("call_select_destinations_4.0_full_spec", FULL, NEWEST),
        ("legacy_dicts_from_minimal_spec", MINIMAL, NEWEST),
        ("legacy_dicts_from_full_spec", FULL, NEWEST),
        (
            "call_newton_select_destinations_4.0_cap_liberty",
            replace(PLAIN_OF_NEWTON, num_instances=2),
            NEWTON,
        ),
        ("call_newton_select_destinations_4.0_full_cap_liberty", FULL_OF_NEWTON, NEWTON),
    ],
)
def test_dictionaries_of_capped_clients(name, spec, release):
    sample = wire_samples.sample(name)
    captured = dicts(sample["message"]["args"] if "message" in sample else sample)
    assert essence(as_json(as_dicts(spec, release))) == essence(captured)
    assert decode_select_arguments(captured).spec == in_dicts_of(spec, release)


@pytest.mark.parametrize(
    ("name", "spec", "release"),
    [
        ("call_newton_select_destinations_4.0_raw_dicts", BUILT_BY_NEWTON, NEWTON),
        ("legacy_newton_build_request_spec", BUILT_BY_NEWTON, NEWTON),
        ("call_select_destinations_4.0_raw_build_request_spec", BUILT_BY_34, NEWEST),
        ("legacy_build_request_spec", BUILT_PLAINLY_BY_34, NEWEST),
    ],
)
def test_dictionaries_that_conductors_build(name, spec, release):
    sample = wire_samples.sample(name)
    captured = dicts(sample["message"]["args"] if "message" in sample else sample)
    said = essence(as_json(as_flattened_dicts(spec, release, {"hw_architecture"})))
    assert {part: said[part] for part in captured} == essence(captured)


@pytest.mark.parametrize("name", wire_samples.names("call_newton_select_destinations*"))
def test_contexts_of_newton(name):
    assert in_newton(ALICE) == wire_samples.context(name)


@pytest.mark.parametrize("name", wire_samples.names("call_select_destinations*"))
def test_contexts_of_the_newest_release(name):
    captured = wire_samples.context(name)
    # One of the calls was made in the way of Liberty, which waits for no sign of life.
    assert captured["client_timeout"] == (None if "raw" in name else 60)
    caller = replace(ALICE_TODAY, client_timeout=captured["client_timeout"])
    assert in_newest(caller) == captured
