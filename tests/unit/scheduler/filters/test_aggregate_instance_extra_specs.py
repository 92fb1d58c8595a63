# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of a filter for reserved aggregates."""

import pytest

from scheduler.filters.aggregate_instance_extra_specs import AggregateInstanceExtraSpecsFilter
from tests.builders import a_request
from tests.hosts import a_host, a_table, an_aggregate, in_aggregates

RULE = AggregateInstanceExtraSpecsFilter()
SCOPE = "aggregate_instance_extra_specs"


def verdict(aggregates, extra_specs):
    """Return None when a host passes, else the reason."""
    host, spec = a_host(aggregates=aggregates), a_request(extra_specs=extra_specs)
    return None if RULE.host_passes(host, spec) else RULE.reason(host, spec)


@pytest.mark.parametrize(
    ("metadata", "key", "requirement", "reason"),
    [
        ({"ssd": "true"}, "ssd", "true", None),
        ({"ssd": "true"}, f"{SCOPE}:ssd", "true", None),
        ({}, "ssd", "true", "ssd must be 'true', the aggregates of the host have none"),
        ({}, "hw:cpu_policy", "dedicated", None),
        ({"ssd": "true, false"}, "ssd", "false", None),
        (
            {"ssd": "True"},
            "ssd",
            "true",
            "ssd must be 'true', the aggregates of the host have 'True'",
        ),
        ({"n": "4,8"}, "n", ">= 8", None),
        ({"n": "4,8"}, "n", ">= 9", "n must be '>= 9', the aggregates of the host have '4', '8'"),
        ({"a:b": "1"}, f"{SCOPE}:a:b", "1", None),
        ({"a:b": "1"}, "a:b", "2", None),
        ({SCOPE: "1"}, SCOPE, "1", None),
        ({SCOPE: "1"}, SCOPE, "2", f"{SCOPE} must be '2', the aggregates of the host have '1'"),
        ({"k": "foo,bar"}, "k", "s!= foo", None),
        (
            {"k": "foo"},
            "k",
            "s!= foo",
            "k must be 's!= foo', the aggregates of the host have 'foo'",
        ),
        ({"": "1"}, f"{SCOPE}:", "1", None),
        ({"k": ""}, "k", "", None),
        ({"k": ""}, "k", "x", "k must be 'x', the aggregates of the host have ''"),
        ({"n": "4"}, "n", 4, None),
    ],
)
def test_worked_cases(metadata, key, requirement, reason):
    assert verdict([an_aggregate(**metadata)], {key: requirement}) == reason


@pytest.mark.parametrize("texts", ["abc,8", "8,abc"])
def test_one_value_that_satisfies_is_enough_whatever_the_others_are(texts):
    # In Nova it depends on the hash of the texts whether the request fails.
    assert verdict(in_aggregates("n", [texts]), {"n": ">= 8"}) is None


def test_what_raises_in_nova_is_not_met_here():
    reason = verdict(in_aggregates("n", ["abc"]), {"n": ">= 8"})
    assert reason == "n must be '>= 8', the aggregates of the host have 'abc'"
    assert verdict(in_aggregates("n", ["8"]), {"n": "<or>"}) is not None


def test_keys_may_be_met_by_different_aggregates_but_all_have_to_be():
    aggregates = [an_aggregate(ssd="true"), an_aggregate(n="4"), an_aggregate(n="8")]
    assert verdict(aggregates, {"ssd": "true", "n": ">= 8"}) is None
    assert verdict(aggregates, {"ssd": "false", "n": ">= 8", "x": "1"}) == (
        "ssd must be 'false', the aggregates of the host have 'true'; "
        "x must be '1', the aggregates of the host have none"
    )


@pytest.mark.parametrize("extra_specs", [{}, None, {"hw:x": "1", "capabilities:gpu": "1"}])
def test_a_flavor_that_asks_nothing_of_aggregates_lets_all_pass(extra_specs):
    spec = a_request(extra_specs=extra_specs)
    assert not RULE.applies(spec)
    assert RULE.host_passes(a_host(aggregates=None), spec)


def test_a_host_of_no_aggregate_meets_nothing():
    assert verdict(None, {"ssd": "true"}) is not None


def test_a_mask_has_each_host_s_own_verdict():
    hosts = a_table(
        a_host("h1", aggregates=in_aggregates("n", ["4"])),
        a_host("h2", aggregates=in_aggregates("n", ["8"])),
        a_host("h3", aggregates=None),
    )
    for requirement, expected in ((">= 8", [False, True, False]), ("<= 8", [True, True, False])):
        mask = RULE.mask(hosts, a_request(extra_specs={"n": requirement, "hw:x": "1"}))
        assert mask.tolist() == expected
    spec = a_request(extra_specs={"n": "s!= 4", f"{SCOPE}:n": "<or> 4 <or> 8"})
    assert RULE.mask(hosts, spec).tolist() == [False, True, False]


def test_when_it_is_asked():
    assert RULE.run_filter_once_per_request
    assert not RULE.RUN_ON_REBUILD
