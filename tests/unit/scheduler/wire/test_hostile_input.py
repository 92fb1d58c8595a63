# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Whatever is sent, the answer is a request or InvalidInput that names the field."""

import json
import math
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.wire.arguments import decode_select_arguments, encode_select_arguments
from scheduler.wire.errors import InvalidInput
from scheduler.wire.legacy_requests import encode_legacy
from scheduler.wire.replies import decode_destinations
from scheduler.wire.tracking import decode_argument
from tests.mutations import mutated
from tests.unit.scheduler.wire import wire_samples
from tests.unit.scheduler.wire.strategies import json_values

DATA = "nova_object.data"
ORDINARY = "call_select_destinations_4.5_full_spec"


def nested(depth=100_000):
    value = []
    for _ in range(depth):
        value = [value]
    return value


def refusal(arguments):
    with pytest.raises(InvalidInput) as refused:
        decode_select_arguments(arguments)
    assert len(refused.value.reason) < 300
    return refused.value.reason


def changed(*path, value):
    """Return the full call with one value replaced; the path goes through the envelopes."""
    arguments = wire_samples.arguments(ORDINARY)
    node = arguments
    for step in path[:-1]:
        node = node[step]
        node = node.get(DATA, node) if isinstance(node, dict) else node
    node[path[-1]] = value
    return arguments


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("flavor.vcpus", -1, "-1 is not between 0 and 2147483647"),
        ("flavor.vcpus", "abc", "'abc' is not a whole number"),
        ("flavor.vcpus", True, "True is not a whole number"),
        ("flavor.vcpus", None, "is missing"),
        ("flavor.memory_mb", 2**31, "2147483648 is not between 0 and 2147483647"),
        ("flavor.memory_mb", math.nan, "nan is not a whole number"),
        ("flavor.root_gb", math.inf, "inf is not a whole number"),
        ("flavor", [], "a list is not an object"),
        ("flavor", None, "is missing"),
        ("flavor.rxtx_factor", math.nan, "nan is not a finite number"),
        ("flavor.extra_specs", {"hw:a": {}}, None),
        ("image.properties", "x", "'x' is not an object"),
        ("num_instances", 10**9, "1000000000 is not between 1 and 10000"),
        ("num_instances", 0, "0 is not between 1 and 10000"),
        ("instance_uuid", "x" * 37, None),
        ("ignore_hosts", "compute1", "'compute1' is not a list"),
        ("instance_group", nested(), "a list is not an object"),
        ("instance_group._rules", {"max_server_per_host": "0"}, None),
        ("numa_topology", "[" * 100_000, None),
        ("numa_topology", nested(), "a list is not an object"),
        ("requested_destination.cell", {}, None),
    ],
)
def test_a_bad_field_is_named(path, value, reason):
    refused = refusal(changed("spec_obj", *path.split("."), value=value))
    assert refused.startswith(f"spec_obj.{path}")
    assert reason is None or refused == f"spec_obj.{path}: {reason}"


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("spec_obj", None, "spec_obj: null is not an object"),
        ("spec_obj", nested(), "spec_obj: a list is not an object"),
        ("spec_obj", "x" * 2**20, f"spec_obj: '{'x' * 40}...' is not an object"),
        ("instance_uuids", ["a", "a"], "instance_uuids: names an instance twice"),
        ("instance_uuids", ["a", "A"], "instance_uuids: names an instance twice"),
        ("instance_uuids", ["a", "b", "a "], "instance_uuids[2]: 'a ' is not a uuid"),
        ("instance_uuids", ["\u00e1"], "instance_uuids[0]: '\u00e1' is not a uuid"),
        ("instance_uuids", ["a", 1.0, {}], "instance_uuids[2]: a dict is not text"),
        ("instance_uuids", ["a", None], "instance_uuids[1]: null is not text"),
        ("instance_uuids", "a", "instance_uuids: 'a' is not a list"),
        ("instance_uuids", {"a": 1}, "instance_uuids: a dict is not a list"),
        ("return_objects", "perhaps", "return_objects: 'perhaps' is neither true nor false"),
        ("return_alternates", [], "return_alternates: a list is neither true nor false"),
    ],
)
def test_a_bad_argument_is_named(name, value, reason):
    assert refusal(wire_samples.arguments(ORDINARY) | {name: value}) == reason


def test_the_number_of_instances_is_bounded():
    uuids = [str(number) for number in range(10_001)]
    reason = refusal(wire_samples.arguments(ORDINARY) | {"instance_uuids": uuids})
    assert reason == "instance_uuids: 10001 items are more than 10000"
    asked = decode_select_arguments(
        wire_samples.arguments(ORDINARY) | {"instance_uuids": uuids[1:]}
    )
    assert len(asked.instance_uuids) == 10_000


@pytest.mark.parametrize(
    ("path", "name"), [((), "scheduler_hints"), (("flavor", DATA), "extra_specs")]
)
def test_the_numbers_of_hints_and_of_extra_specs_are_bounded(path, name):
    """Each costs some time in which others wait, so that size alone bounds little."""
    arguments = wire_samples.arguments(ORDINARY)
    holder = arguments["spec_obj"][DATA]
    for each in path:
        holder = holder[each]
    holder[name] = {f"x:{number}": "y" for number in range(1000)}
    decode_select_arguments(arguments)
    holder[name]["one"] = "more"
    assert refusal(arguments).endswith(f"{name}: 1001 items are more than 1000")


@pytest.mark.parametrize("version", ["2.0", "0.9", "x", "", "1.x", "1.", 1.15, None, ["1.15"]])
def test_a_spec_of_another_major_version_is_refused(version):
    arguments = wire_samples.arguments(ORDINARY)
    arguments["spec_obj"]["nova_object.version"] = version
    assert refusal(arguments).startswith("spec_obj: RequestSpec is of version ")


@pytest.mark.parametrize("version", [5, 1.15, ["1.15"], {}, True, "x"])
def test_a_version_that_is_none_is_refused_without_an_envelope_too(version):
    spec = wire_samples.arguments(ORDINARY)["spec_obj"][DATA] | {"nova_object.version": version}
    assert refusal({"spec_obj": spec}).startswith("spec_obj: RequestSpec is of version ")


def test_nothing_at_all_lacks_a_flavor():
    assert refusal({}) == "request_spec.instance_type: is missing"


def test_much_nonsense_in_unknown_fields_is_ignored():
    nonsense = {f"field{number}": nested(50) for number in range(10_000)}
    arguments = wire_samples.arguments(ORDINARY)
    arguments["spec_obj"][DATA] |= nonsense
    assert decode_select_arguments(arguments).spec.vcpus == 2


CALLS = [wire_samples.arguments(name) for name in wire_samples.names("call_*select_destinations*")]
REPLIES = [
    wire_samples.sample(name)["message"]["result"]
    for name in wire_samples.names("reply_*select_destinations*")
]
AGGREGATES = [
    wire_samples.arguments(name)["aggregates"]
    for name in wire_samples.names("cast_*update_aggregates*")
]


def survives(decode, value):
    """Return what was read, or None after the one error that is allowed."""
    try:
        return decode(value)
    except InvalidInput:
        return None


@given(mutated(CALLS).filter(lambda arguments: isinstance(arguments, dict)))
def test_a_call_with_any_node_replaced(arguments):
    asked = survives(decode_select_arguments, arguments)
    if asked is not None:
        # What was accepted can be passed on.
        json.dumps([encode_select_arguments(asked), encode_legacy(asked.spec)])


@given(mutated(REPLIES))
def test_an_answer_with_any_node_replaced(reply):
    survives(decode_destinations, reply)


@given(mutated(AGGREGATES))
def test_aggregates_with_any_node_replaced(value):
    survives(partial(decode_argument, "aggregates"), value)


@given(
    st.dictionaries(
        st.sampled_from(
            ["spec_obj", "request_spec", "filter_properties", "instance_uuids", "return_objects"]
        ),
        json_values,
    )
)
def test_any_arguments(arguments):
    survives(decode_select_arguments, arguments)
