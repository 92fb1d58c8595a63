# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.filters.trusted."""

import pytest

from scheduler.filters.trusted import TrustedFilter
from tests.builders import a_flavor, a_request
from tests.hosts import a_host, hosts_with

RULE = TrustedFilter()


@pytest.mark.parametrize(
    ("wanted", "attested", "reason"),
    [
        (None, None, None),
        ("", "untrusted", None),
        ("trusted", "trusted", None),
        ("trusted", "untrusted", "needs trust level 'trusted', attested is 'untrusted'"),
        ("untrusted", "untrusted", None),
        ("untrusted", "trusted", "needs trust level 'untrusted', attested is 'trusted'"),
        ("trusted", None, "needs trust level 'trusted', attested is 'unknown'"),
        ("trusted", "unknown", "needs trust level 'trusted', attested is 'unknown'"),
        ("unknown", None, None),
        ("unknown", "", None),
        ("Trusted", "trusted", "needs trust level 'Trusted', attested is 'trusted'"),
    ],
)
def test_worked_cases(wanted, attested, reason):
    host = a_host(trust_level=attested)
    spec = a_request(extra_specs={} if wanted is None else {"trust:trusted_host": wanted})
    passes = RULE.host_passes(host, spec)
    assert passes == (reason is None)
    assert passes or RULE.reason(host, spec) == reason


def test_it_is_not_asked_without_the_extra_spec():
    assert not RULE.applies(a_request())
    assert not RULE.applies(a_request(extra_specs={"trust:trusted_host": ""}))
    assert not RULE.applies(a_request(flavor=a_flavor(extra_specs=None)))
    assert RULE.applies(a_request(extra_specs={"trust:trusted_host": "trusted"}))
    assert not RULE.run_filter_for_index(1)


def test_each_level_is_looked_at_once():
    levels = {"h1": "trusted", "h2": None, "h3": "untrusted", "h4": "trusted"}
    spec = a_request(extra_specs={"trust:trusted_host": "trusted"})
    mask = RULE.mask(hosts_with("trust_level", levels), spec)
    assert mask.tolist() == [True, False, False, True]
