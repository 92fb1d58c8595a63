# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the filters for instances that hints name."""

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
    """Return for either filter None when a host with these instances passes, else the reason."""
    host = a_host(instances=there)
    for rule, hint in RULES:
        spec = a_request(scheduler_hints={hint: given})
        yield None if rule.host_passes(host, spec) else rule.reason(host, spec)


def has(*uuids):
    return f"has instances that the hint different_host names: {', '.join(uuids)}"


def lacks(*uuids):
    return f"has no instance that the hint same_host names: {[*uuids]}"


@pytest.mark.parametrize(
    ("there", "given", "different", "same"),
    [
        # The table of the reference, but for JSON lists, which follow below.
        (["u0"], ["u0"], has("u0"), None),
        (["u0"], ["u0", "u1"], has("u0"), None),
        (["u0"], ["u5"], None, lacks("u5")),
        (["u0"], [], None, None),
        ([], ["u0"], None, lacks("u0")),
        # And what follows from its rules.
        (["u0"], [""], None, None),
        (["u0"], ["U0"], None, lacks("U0")),
        (["u0", "u1"], ["u1", "u2"], has("u1"), None),
        (["u0"], ["u5", "u6"], None, lacks("u5", "u6")),
        (["u0", "u1"], ["u1", "u0", "u1"], has("u1", "u0"), None),
    ],
)
def test_worked_cases(there, given, different, same):
    assert [*verdicts(there, given)] == [different, same]


@pytest.mark.parametrize(
    ("text", "different", "same"),
    [
        ('["u0", "u1"]', has("u0"), None),
        (' ["u0"]', has("u0"), None),
        ('["u5"]', None, lacks("u5")),
        ("[]", None, None),
        # No list of instances, so no instance: fail closed where one is wanted.
        ("[u0]", None, lacks("[u0]")),
        ("[7]", None, lacks("7")),
        ("[", None, lacks("[")),
        ("[" * 100_000, None, lacks("[" * 100_000)),
        ('{"u0": 1}', None, lacks('{"u0": 1}')),
    ],
)
def test_unlike_nova_a_json_list_in_one_text_is_read(text, different, same):
    # To Nova the text is the uuid of one instance, which no host has.
    assert [*verdicts(["u0"], [text])] == [different, same]


def test_texts_and_json_lists_may_be_mixed():
    assert [*verdicts(["u0"], ["u5", json.dumps(["u6", "u0"])])] == [has("u0"), None]


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
        "has no instance that the hint same_host names: ['u5', 'u6']"
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


def test_hosts_with_standbys_that_a_hint_keeps_apart_are_refused():
    table = a_table(a_host("h1"), a_host("h2"))
    spec = a_request(kept_apart={"h1", "gone"})
    assert DIFFERENT.applies(spec)
    assert DIFFERENT.mask(table, spec).tolist() == [False, True]
    reason = "has a standby that the hint different_host keeps apart from the instance"
    assert DIFFERENT.reason(a_host("h1"), spec) == reason
