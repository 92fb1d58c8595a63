# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.filters.different_host, same_host and instance_hints."""

import json

import pytest

from scheduler.filters.different_host import DifferentHostFilter
from scheduler.filters.same_host import SameHostFilter
from tests.builders import a_request
from tests.hosts import a_host, a_table

DIFFERENT, SAME = DifferentHostFilter(), SameHostFilter()
RULES = [(DIFFERENT, "different_host"), (SAME, "same_host")]
each_rule = pytest.mark.parametrize(("rule", "hint"), RULES)


def verdicts(there, given):
    """Return whether a host with these instances passes either filter, and check the reasons."""
    host = a_host(instances=there)
    found = []
    for rule, hint in RULES:
        spec = a_request(scheduler_hints={hint: given})
        found.append(rule.host_passes(host, spec))
        assert found[-1] or hint in rule.reason(host, spec)
    return tuple(found)


@pytest.mark.parametrize(
    ("there", "given", "different", "same"),
    [
        (["u0"], ["u0"], False, True),
        (["u0"], ["u0", "u1"], False, True),
        (["u0"], ["u5"], True, False),
        (["u0"], [], True, True),
        (["u0"], [""], True, True),
        ([], ["u0"], True, False),
        (["u0"], ["U0"], True, False),
        (["u0", "u1"], ["u1", "u2"], False, True),
        (["u0"], ["u5", "u6"], True, False),
    ],
)
def test_worked_cases(there, given, different, same):
    assert verdicts(there, given) == (different, same)


@pytest.mark.parametrize(
    ("text", "different", "same"),
    [
        ('["u0", "u1"]', False, True),
        (' ["u0"]', False, True),
        ('["u5"]', True, False),
        ("[]", True, True),
        # No list of instances, so no instance: fail closed where one is wanted.
        ("[u0]", True, False),
        ("[7]", True, False),
        ("[", True, False),
        ("[" * 100_000, True, False),
        ('{"u0": 1}', True, False),
    ],
)
def test_unlike_nova_a_json_list_in_one_text_is_read(text, different, same):
    assert verdicts(["u0"], [text]) == (different, same)


def test_texts_and_json_lists_may_be_mixed():
    assert verdicts(["u0"], ["u5", json.dumps(["u6", "u0"])]) == (False, True)


@each_rule
def test_a_request_without_the_hint_may_go_anywhere(rule, hint):
    for hints in ({}, {hint: []}, {"other": ["u0"]}):
        spec = a_request(scheduler_hints=hints)
        assert not rule.applies(spec)
        assert rule.host_passes(a_host(instances=["u0"]), spec)


def test_reasons_name_the_instances():
    host = a_host(instances=["u0", "u1", "u2"])
    spec = a_request(scheduler_hints={"different_host": ["u2", "u5", "u0"]})
    assert DIFFERENT.reason(host, spec) == (
        "has instances that the hint different_host names: u2, u0"
    )
    spec = a_request(scheduler_hints={"same_host": ["u5", "u6", "u5"]})
    assert SAME.reason(host, spec) == (
        "has none of the 2 instances that the hint same_host names: ['u5', 'u6']"
    )


def test_a_mask_has_each_host_s_own_verdict_also_while_an_instance_moves():
    hosts = a_table(
        a_host("h1", instances=["u0", "x"]),
        a_host("h2", instances=["y"]),
        a_host("h3", instances=["u1", "u0"]),
        a_host("h4"),
    )
    spec = a_request(scheduler_hints={hint: ["u0", "u1", "u5"] for _, hint in RULES})
    assert SAME.mask(hosts, spec).tolist() == [True, False, True, False]
    assert DIFFERENT.mask(hosts, spec).tolist() == [False, True, False, True]


@each_rule
def test_when_they_are_asked(rule, hint):
    assert rule.run_filter_once_per_request
    assert not rule.RUN_ON_REBUILD
