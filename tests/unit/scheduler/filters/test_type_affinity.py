# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.filters.type_affinity and aggregate_type_affinity."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.filters.aggregate_type_affinity import AggregateTypeAffinityFilter
from scheduler.filters.type_affinity import TypeAffinityFilter
from scheduler.objects.instance import Instance
from tests.builders import a_flavor, a_request
from tests.hosts import a_host, a_table, in_aggregates

OF_HOST, OF_AGGREGATE = TypeAffinityFilter(), AggregateTypeAffinityFilter()


def instances(*flavors):
    """Return instances of (id, name) each, either of them known in one way or the other."""
    found = {}
    for number, (identity, name) in enumerate(flavors):
        uuid = f"u{number}"
        if number % 2:
            flavor = a_flavor(id=identity, name=name)
            found[uuid] = Instance(uuid=uuid, flavor=flavor)
        else:
            found[uuid] = Instance(uuid=uuid, instance_type_id=identity, flavor_name=name)
    return found


def refusal(others, unknown):
    instances = "instance" if others == 1 else "instances"
    return f"has {others} {instances} of other flavors than 'm1' and {unknown} of unknown flavor"


@pytest.mark.parametrize(
    ("there", "reason"),
    [
        ([], None),
        ([(1, None), (1, None)], None),
        ([(2, None)], refusal(1, 0)),
        ([(1, None), (2, None)], refusal(1, 0)),
        ([(1, "m1"), (1, "m1"), (2, "m2"), (3, "m3")], refusal(2, 0)),
        # A flavor that was made anew has another id under the same name.
        ([(2, "m1")], refusal(1, 0)),
        ([(1, "renamed")], None),
        ([(None, "m1"), (None, "m1")], None),
        ([(None, "m2"), (None, "m2")], refusal(2, 0)),
        ([(1, None), (None, "m1")], None),
        ([(None, None), (1, None)], refusal(0, 1)),
        ([(1, None), (None, None), (2, None)], refusal(1, 1)),
    ],
)
def test_worked_cases(there, reason):
    host = a_host(instances=instances(*there))
    spec = a_request(flavor=a_flavor(id=1, name="m1"))
    passes = OF_HOST.host_passes(host, spec)
    assert passes == (reason is None)
    assert passes or OF_HOST.reason(host, spec) == reason


@pytest.mark.parametrize(
    ("there", "reason"),
    [
        ([], None),
        ([(5, "m1"), (6, "m1"), (None, "m1")], None),
        ([(5, "m1"), (6, "m2")], refusal(1, 0)),
        ([(5, None)], refusal(0, 1)),
        ([(None, None)], refusal(0, 1)),
    ],
)
def test_a_flavor_without_an_id_is_compared_by_name(there, reason):
    host = a_host(instances=instances(*there))
    spec = a_request(flavor=a_flavor(id=None, name="m1"))
    passes = OF_HOST.host_passes(host, spec)
    assert passes == (reason is None)
    assert passes or OF_HOST.reason(host, spec) == reason


def test_a_flavor_without_id_and_name_is_no_other_s_equal():
    spec = a_request(flavor=a_flavor(id=None, name=None))
    assert OF_HOST.host_passes(a_host(), spec)
    assert not OF_HOST.host_passes(a_host(instances=instances((None, None))), spec)
    assert not OF_HOST.host_passes(a_host(instances=instances((1, "m1"))), spec)


@pytest.mark.parametrize("identity", [1, None])
def test_the_instances_of_one_request_are_of_one_flavor(identity):
    host = a_host()
    spec = a_request(flavor=a_flavor(id=identity, name="m1"), instance_uuid="u1")
    host.consume_from_request(spec)
    assert OF_HOST.host_passes(host, spec)
    assert not OF_HOST.host_passes(host, a_request(flavor=a_flavor(id=2, name="m2")))


IDS, NAMES = st.none() | st.integers(1, 2), st.none() | st.sampled_from(["m1", "m2"])
FLAVORS = st.tuples(IDS, NAMES)


def equal(one, other):
    if None not in (one[0], other[0]):
        return one[0] == other[0]
    return one[1] is not None and one[1] == other[1]


@given(st.lists(st.lists(FLAVORS, max_size=3), max_size=4), FLAVORS)
def test_a_host_passes_exactly_if_all_its_instances_are_of_the_flavor(there, flavor):
    hosts = a_table(
        *(a_host(f"h{row}", instances=instances(*each)) for row, each in enumerate(there))
    )
    mask = OF_HOST.mask(hosts, a_request(flavor=a_flavor(id=flavor[0], name=flavor[1])))
    assert mask.tolist() == [all(equal(flavor, each) for each in one) for one in there]


@pytest.mark.parametrize(
    ("texts", "name", "kept_for"),
    [
        (["m1.small"], "m1.small", None),
        (["m1.small"], "m1.large", "'m1.small'"),
        (["m1.small, m1.large"], "m1.large", None),
        (["m1.small", "m1.large"], "m1.large", None),
        (["m1.small", "m1.large"], "m1.tiny", "'m1.large', 'm1.small'"),
        (["M1.small"], "m1.small", "'M1.small'"),
        ([""], "m1.small", "''"),
        ([], "m1.small", None),
        (["m1.small"], None, "'m1.small'"),
    ],
)
def test_worked_cases_of_aggregates(texts, name, kept_for):
    host = a_host(aggregates=in_aggregates("instance_type", texts))
    spec = a_request(flavor=a_flavor(name=name))
    passes = OF_AGGREGATE.host_passes(host, spec)
    assert passes == (kept_for is None)
    asked = "names no flavor" if name is None else f"is for {name!r}"
    reason = f"is kept for the flavors {kept_for}, the request {asked}"
    assert passes or OF_AGGREGATE.reason(host, spec) == reason


def test_a_mask_has_each_host_s_own_verdict():
    hosts = a_table(
        a_host("h1", aggregates=in_aggregates("instance_type", ["a"])),
        a_host("h2", aggregates=in_aggregates("instance_type", ["b"])),
        a_host("h3", aggregates=None),
    )
    for name, expected in (("a", [True, False, True]), ("b", [False, True, True])):
        spec = a_request(flavor=a_flavor(name=name))
        assert OF_AGGREGATE.mask(hosts, spec).tolist() == expected


def test_when_they_are_asked():
    assert OF_AGGREGATE.run_filter_once_per_request
    # The instances of one request count for each other.
    assert not OF_HOST.run_filter_once_per_request
    assert not OF_AGGREGATE.RUN_ON_REBUILD
    assert not OF_HOST.RUN_ON_REBUILD


def test_a_flavor_without_a_name_is_not_called_none():
    host = a_host(instances=instances((None, "m1")))
    assert "None" not in TypeAffinityFilter().reason(host, a_request(flavor=a_flavor(name=None)))
