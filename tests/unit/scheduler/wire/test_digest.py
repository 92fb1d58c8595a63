# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""When a request counts as the same as another: by what it says, not by how that is written."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from inventory.objects.object_schema import DATA_KEY
from scheduler.wire.arguments import decode_select_arguments, encode_select_arguments
from scheduler.wire.errors import InvalidInput
from tests.unit.scheduler.wire import wire_samples

FULL = "call_select_destinations_4.5_full_spec"
CALLS = wire_samples.names("call_*select_destinations*")
CHANGES = "nova_object.changes"
# The arrays of the samples in which Nova writes sets.
SETS = {"physnets", "cpuset", "pcpuset", "required_traits", "forbidden_aggregates"}


def digest(arguments):
    return decode_select_arguments(arguments).digest


def rewritten(value, name=""):
    """Return what another process of Nova may send for the same: no changes, other orders."""
    if isinstance(value, dict):
        kept = [(key, each) for key, each in value.items() if key != CHANGES]
        return {key: rewritten(each, key) for key, each in reversed(kept)}
    if isinstance(value, list):
        items = [rewritten(each) for each in value]
        return items[::-1] if name in SETS else items
    return value


@pytest.mark.parametrize("name", CALLS)
def test_the_same_request_in_other_words(name):
    arguments = wire_samples.arguments(name)
    other = rewritten(arguments)
    assert str(other) != str(arguments)
    assert digest(other) == digest(arguments) == digest(wire_samples.arguments(name))


def test_the_order_of_a_set_means_nothing_but_that_of_a_list_does():
    def with_networks(physnets, hosts):
        arguments = wire_samples.arguments(FULL)
        data = arguments["spec_obj"][DATA_KEY]
        data["network_metadata"][DATA_KEY]["physnets"] = physnets
        data["ignore_hosts"] = hosts
        return digest(arguments)

    assert with_networks(["a", "b", "c"], ["h"]) == with_networks(["c", "b", "a"], ["h"])
    assert with_networks(["a"], ["h", "i"]) != with_networks(["a"], ["i", "h"])


def test_our_own_arguments_have_the_digest_of_what_they_become():
    asked = decode_select_arguments(wire_samples.arguments(FULL))
    assert digest(encode_select_arguments(asked)) == asked.digest


@pytest.mark.parametrize("flag", ["return_objects", "return_alternates"])
def test_another_form_of_answer_makes_another_request(flag):
    asked = decode_select_arguments(wire_samples.arguments(FULL))
    assert replace(asked, **{flag: not getattr(asked, flag)}).digest != asked.digest
    assert replace(asked, instance_uuids=asked.instance_uuids[:1]).digest != asked.digest


def other_than(leaf):
    """Return another value of the same type."""
    if isinstance(leaf, bool):
        return not leaf
    return f"{leaf[:-1]}~" if isinstance(leaf, str) else leaf + 1


def changed_one_by_one(value) -> Iterator[None]:
    """Change each leaf in its place, one after the other; yield while one is changed."""
    items = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
    for key, each in items:
        if isinstance(each, (dict, list)):
            yield from changed_one_by_one(each)
        elif each is not None and key != CHANGES:
            value[key] = other_than(each)
            yield
            value[key] = each


@pytest.mark.parametrize("name", CALLS)
def test_whatever_is_understood_differently_is_another_request(name):
    arguments = wire_samples.arguments(name)
    whole = decode_select_arguments(arguments)
    found = set()
    for _ in changed_one_by_one(arguments):
        try:
            asked = replace(decode_select_arguments(arguments), spec_version=whole.spec_version)
        except InvalidInput:
            continue
        assert (asked == whole) == (asked.digest == whole.digest)
        found.add(asked.digest)
    assert len(found) > 30
