# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.request_filters."""

import pytest

from inventory.objects.aggregate import Aggregate
from scheduler.request_filters import IsolateAggregates
from tests.builders import a_request, an_image
from tests.hosts import a_host, hosts_with

RULE = IsolateAggregates(enabled=True)
WINDOWS, GPU = {"trait:CUSTOM_WINDOWS": "required"}, {"trait:CUSTOM_GPU": "required"}


def a_host_in(*metadata):
    return a_host(
        aggregates=[Aggregate(name=f"a{number}", metadata=m) for number, m in enumerate(metadata)]
    )


def judged(host, spec):
    """Return whether a host passes, or the reason why it does not."""
    return RULE.host_passes(host, spec) or RULE.reason(host, spec)


KEPT = "aggregate a0 is kept for instances that require trait CUSTOM_WINDOWS"


@pytest.mark.parametrize(
    ("metadata", "flavor", "image", "expected"),
    [
        ([], {}, [], True),
        ([{"ssd": "true"}], {}, [], True),
        ([WINDOWS], {}, [], KEPT),
        ([WINDOWS], WINDOWS, [], True),
        ([WINDOWS], {}, ["CUSTOM_WINDOWS"], True),
        ([WINDOWS], GPU, ["CUSTOM_GPU"], KEPT),
        # Any trait that the request does not require isolates.
        ([WINDOWS | GPU], WINDOWS, [], "aggregate a0 is kept for instances that require trait"),
        ([WINDOWS | GPU], WINDOWS, ["CUSTOM_GPU"], True),
        ([WINDOWS, GPU], GPU, [], KEPT),
        ([{}, GPU], WINDOWS, [], "aggregate a1 is kept for instances that require trait"),
        # Only what is required counts, on either side.
        ([{"trait:CUSTOM_WINDOWS": "forbidden"}], {}, [], True),
        ([{"trait:CUSTOM_WINDOWS": "Required"}], {}, [], True),
        ([WINDOWS], {"trait:CUSTOM_WINDOWS": "forbidden"}, [], KEPT),
        ([WINDOWS], {"trait:custom_windows": "required"}, [], KEPT),
        # A flavor may require it of a group of resources.
        ([WINDOWS], {"trait1:CUSTOM_WINDOWS": "required"}, [], True),
        ([WINDOWS], {"trait_GPU:CUSTOM_WINDOWS": "required"}, [], True),
        ([{"trait1:CUSTOM_WINDOWS": "required"}], {}, [], True),
        ([{"trait:": "required", "trait": "required", "x:trait:Y": "required"}], {}, [], True),
    ],
)
def test_hosts_are_kept_for_those_who_require_the_traits(metadata, flavor, image, expected):
    spec = a_request(extra_specs=flavor, image=an_image(traits_required=image))
    found = judged(a_host_in(*metadata), spec)
    assert found is True if expected is True else found.startswith(expected)


def test_the_reason_names_every_aggregate_and_trait():
    assert judged(a_host_in(WINDOWS | GPU, GPU), a_request(extra_specs=WINDOWS)) == (
        "aggregate a0 is kept for instances that require trait CUSTOM_GPU;"
        " aggregate a1 is kept for instances that require trait CUSTOM_GPU"
    )


@pytest.mark.parametrize("metadata", [(), ({},), (GPU,), ({"trait:CUSTOM_WINDOWS": "x"},)])
def test_a_trait_is_where_an_aggregate_says_so(metadata):
    lacks = "no aggregate of the host says trait:CUSTOM_WINDOWS = required"
    of_flavor = a_request(extra_specs=WINDOWS | GPU)
    of_image = a_request(image=an_image(traits_required=["CUSTOM_WINDOWS", "CUSTOM_GPU"]))
    for spec in (of_flavor, of_image):
        assert judged(a_host_in(*metadata), spec).endswith(lacks)
        assert judged(a_host_in(*metadata, WINDOWS, GPU), spec) is True


@pytest.mark.parametrize("image", [None, an_image()])
def test_a_request_without_traits(image):
    assert judged(a_host_in(WINDOWS), a_request(image=image)) == KEPT
    assert judged(a_host(aggregates=None), a_request(image=image)) is True


def test_it_applies_where_it_is_configured():
    assert RULE.applies(a_request())
    off = IsolateAggregates()
    assert not off.applies(a_request())
    assert off.host_passes(a_host_in(WINDOWS), a_request())


def test_all_hosts_at_once():
    isolated = [Aggregate(name="windows", metadata=WINDOWS)]
    hosts = hosts_with("aggregates", {"h1": isolated, "h2": [], "h3": None, "h4": isolated})
    assert RULE.mask(hosts, a_request()).tolist() == [False, True, True, False]
    windows = a_request(extra_specs=WINDOWS)
    assert RULE.mask(hosts, windows).tolist() == [True, False, False, True]
    assert not hosts.warnings
