# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Values become JSON and are the same again, whoever wrote it or meddled with it."""

import json
import math
import sys
from collections import OrderedDict
from dataclasses import fields
from datetime import UTC, datetime
from enum import IntEnum

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.objects import numa, pci_and_network
from inventory.objects.aggregate import Aggregate
from inventory.objects.instance_group import InstanceGroup
from inventory.objects.pci_and_network import PciDevicePool
from inventory.pci_pools import PciPools
from scheduler.decision import types
from scheduler.history.tagged_json import MAX_DEPTH, Unknown, decode, encode, identical
from scheduler.hosts.host_state import Candidate, Consumption
from scheduler.hosts.limits import GroupLimit
from scheduler.objects import request_spec, selection
from scheduler.objects.flavor_and_image import Flavor, ImageMeta, ImageMetaProps
from scheduler.objects.instance import Instance
from scheduler.wire.context import RequestContext
from tests.builders import a_flavor, a_group, a_request, an_image
from tests.contract.drawn import requests

KEYS = st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.just("=set")
MOMENTS = st.datetimes(timezones=st.none() | st.just(UTC)).map(lambda each: each.replace(fold=0))
SIMPLE = KEYS | st.floats() | MOMENTS
VALUES = st.recursive(
    SIMPLE,
    lambda inside: st.one_of(
        st.lists(inside, max_size=3),
        st.lists(inside, max_size=3).map(tuple),
        st.dictionaries(KEYS | st.tuples(KEYS), inside, max_size=3),
        st.sets(KEYS | st.floats(), max_size=3),
        st.frozensets(KEYS, max_size=3),
        st.dictionaries(st.text(max_size=3), inside, max_size=2).map(ImageMetaProps),
        inside.map(lambda value: GroupLimit(value)),
        inside.map(lambda value: a_flavor(extra_specs=value)),
    ),
    max_leaves=8,
)
MARKS = [
    *("=set", "=frozenset", "=tuple", "=dict", "=float", "=datetime", "=PciPools", "=shared"),
    *("=Flavor", "=Unknown", "=Taken", "=ImageMetaProps", "=odd"),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inside: st.one_of(
        st.lists(inside, max_size=3),
        st.dictionaries(st.text(max_size=2), inside, max_size=3),
        st.dictionaries(st.sampled_from(MARKS), inside, min_size=1, max_size=1),
    ),
    max_leaves=10,
)


def through_json(value):
    return decode(json.loads(json.dumps(encode(value))))


@given(VALUES)
def test_values_are_the_same_again(value):
    found = through_json(value)
    assert type(found) is type(value)
    assert identical(found, value)
    # As far as two sets have the same order and two NaN can be told to be the same.
    if "nan" not in repr(value) and "{" not in repr(value):
        assert repr(found) == repr(value)
        assert found == value


@given(requests())
def test_requests_are_the_same_again(spec):
    assert through_json(spec) == spec


@pytest.mark.parametrize(
    "value",
    [
        -0.0,
        math.inf,
        {1: "a", 1.5: "b", None: "c", "=x": 1},
        {"=x": 1},
        {"=x": 1, "y": 2},
        PciPools(
            [PciDevicePool("p", "v", 2, None, {"a": None}), PciDevicePool("p", "v", 0, total=4)]
        ),
        RequestContext("req-1", roles=("admin",)),
        Consumption(1, 2, 3),
        Unknown("some.Class"),
        datetime(2026, 2, 3, 4, 5, 6, 7),
        10**400,
    ],
    ids=repr,
)
def test_some_values_are_the_same_again(value):
    assert repr(through_json(value)) == repr(value)


def test_every_value_of_requests_and_decisions_is_known():
    made = [Aggregate, Flavor, ImageMeta, Instance, InstanceGroup, PciDevicePool]
    made += [numa.InstanceNUMACell, numa.InstanceNUMATopology]
    made += [numa.NUMACell, numa.NUMAPagesTopology, numa.NUMATopology]
    made += [pci_and_network.InstancePCIRequest, pci_and_network.InstancePCIRequests]
    made += [pci_and_network.NetworkMetadata, pci_and_network.NetworkRequest]
    made += [pci_and_network.SecurityGroup, request_spec.CellMapping, request_spec.Destination]
    made += [request_spec.RequestGroup, request_spec.RequestLevelParams, request_spec.RequestSpec]
    made += [request_spec.SchedulerRetries, request_spec.TriedHost]
    made += [selection.NUMATopologyLimits, selection.SchedulerLimits, selection.Selection]
    made += [types.Decision, types.Placement, types.PlacementFailure, types.Step]
    made += [Candidate, Consumption, types.WeighedHost, GroupLimit]
    for kind in made:
        value = kind(*range(len(fields(kind))))
        assert through_json(value) == value, kind


def test_kinds_are_named_and_what_is_none_anyway_is_left_out():
    assert encode(Aggregate(1, hosts=["h"])) == {
        "=Aggregate": {"id": 1, "hosts": ["h"], "metadata": {}}
    }
    assert encode({3, 1, 2}) == {"=set": [1, 2, 3]}
    assert encode(a_request(instance_group=a_group(), image=an_image()))["=RequestSpec"]["image"]


class Number(IntEnum):
    ONE = 1


class Text(str):
    __slots__ = ()

    def __str__(self):
        raise RuntimeError("never asked")


class Stranger:
    def __eq__(self, other):
        raise RuntimeError("never asked")

    __hash__ = None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Number.ONE, 1),
        (Text("a"), "a"),
        (np.float64(2.5), 2.5),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (OrderedDict(a=np.float32(1)), {"a": 1.0}),
        (types.Step("a", 1, 0), types.Step("a", 1, 0)),
        ([Stranger()], [Unknown(f"{__name__}.Stranger")]),
        (np.longdouble(1), Unknown("numpy.longdouble")),
        (10**5000, Unknown("builtins.int")),
        (b"a", Unknown("builtins.bytes")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_plugins_may_leave_behind_is_written_as_far_as_it_is_known(value, expected):
    found = through_json(value)
    assert type(found) is type(expected)
    assert found == expected


def test_a_subclass_of_a_tuple_is_a_tuple():
    assert through_json(type("Pair", (tuple,), {})((1, 2))) == (1, 2)


@pytest.mark.parametrize("wrap", [lambda v: [v], lambda v: {1: v}, lambda v: (v,), GroupLimit])
def test_what_is_nested_too_deep_is_not_followed(wrap):
    value = deep = wrap(None)
    for _ in range(2 * MAX_DEPTH):
        value = wrap(value)
    found = through_json(value)
    assert "builtins" in repr(found) or "GroupLimit" in repr(found)
    for _ in range(MAX_DEPTH - 1):
        deep = wrap(deep)
    assert identical(through_json(deep), deep)
    assert "Unknown" not in repr(through_json(deep))


def test_who_contains_himself_is_not_followed_either():
    endless = []
    endless.append(endless)
    assert "builtins.list" in repr(through_json(endless))


def test_shared_values_are_written_once():
    aggregates, written = [Aggregate(1), Aggregate(2)], []

    def share(value):
        written.append(value)
        return len(written) - 1

    document = encode([aggregates, aggregates[0]], share)
    assert document == [[{"=shared": 0}, {"=shared": 1}], {"=shared": 2}]
    found = decode(document, written)
    assert found == [aggregates, aggregates[0]]
    assert found[0][0] is aggregates[0]


def test_fields_of_another_release_are_passed_over_and_missing_ones_have_their_defaults():
    document = {"vcpus": 1, "memory_mb": 2, "root_gb": 3, "cores": {"=Newer": {}}}
    assert decode({"=Flavor": document}) == Flavor(1, 2, 3)


@pytest.mark.parametrize(
    "document",
    [
        {"=Newer": {}},
        {"=Popen": {"args": "true"}},
        {"=Flavor": {"vcpus": 1}},
        {"=Flavor": []},
        {"=float": "1"},
        {"=float": ["nan"]},
        {"=set": [[]]},
        {"=set": [{"=Flavor": {"vcpus": 1, "memory_mb": 2, "root_gb": 3}}]},
        {"=set": 1},
        {"=set": {}},
        {"=tuple": "ab"},
        {"=dict": [1]},
        {"=dict": [[[], 1]]},
        {"=datetime": "yesterday"},
        {"=datetime": 1},
        {"=ImageMetaProps": []},
        {"=PciPools": [1]},
        {"=PciPools": [{"=PciDevicePool": {"product_id": 1, "vendor_id": 2, "count": "x"}}]},
        {
            "=PciPools": [
                {"=PciDevicePool": {"product_id": 1, "vendor_id": 2, "count": 1, "total": "x"}}
            ]
        },
        {"=shared": 0},
        {"=shared": -1},
        {"=shared": True},
        {1, 2},
        object(),
    ],
    # No addresses: the same names in all processes.
    ids=lambda each: repr(each)[:18],
)
def test_what_is_no_document_is_refused(document):
    with pytest.raises(ValueError, match=r"."):
        decode([document])


@given(JSON)
def test_nothing_but_a_value_error_comes_of_any_json(document):
    try:
        found = decode(document)
    except ValueError:
        return
    # And what is read can be written.
    assert identical(found, through_json(found))


@pytest.mark.parametrize("name", ["", "=set", "=dict", "=tuple", "=ImageMetaProps", "a"])
def test_deep_documents_are_refused(name):
    document = []
    for _ in range(100_000):
        document = {name: document} if name else [document]
    with pytest.raises(ValueError, match="nested too deep"):
        decode(document)


def test_a_stack_that_is_nearly_full_is_no_reason_to_fail_otherwise():
    document = decode([[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]])

    def read_at(depth):
        return read_at(depth - 1) if depth else decode(document)

    errors = set()
    for depth in range(sys.getrecursionlimit()):
        try:
            read_at(depth)
        except (ValueError, RecursionError) as error:
            errors.add(type(error))
    assert errors == {ValueError, RecursionError}


def test_alike_tells_what_equality_does_not():
    assert identical(math.nan, math.nan)
    assert identical({"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert not identical(1, 1.0)
    assert not identical(True, 1)
    assert not identical(0.0, -0.0)
    assert not identical([1], (1,))
