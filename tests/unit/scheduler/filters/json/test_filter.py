# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.filters.json.filter and the language behind it."""

import json
import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.filters.json.filter import MAX_CHARACTERS, MAX_LEVELS, MAX_VARIABLES, JsonFilter
from scheduler.hosts.host_state import HostState
from tests.builders import a_request
from tests.hosts import a_host, a_table, hosts_with

RULE = JsonFilter()
KNOWN = "= < > <= >= in not or and"


def the_host(**changes):
    ordinary = {
        "free_ram_mb": 2048,
        "vcpus_total": 4,
        "hypervisor_type": "QEMU",
        "stats": {"num_instances": "3", "empty": "", "nothing": None, "rack": {"row": 7}},
        "service_disabled": True,
    }
    return a_host(**ordinary | changes)


def asking(*queries):
    texts = [each if isinstance(each, str) else json.dumps(each) for each in queries]
    return a_request(scheduler_hints={"query": texts})


def verdict(query, host=None):
    """Return None when the host passes, else the reason."""
    host, spec = host or the_host(), asking(query)
    return None if RULE.host_passes(host, spec) else RULE.reason(host, spec)


def passes(query, host=None):
    return verdict(query, host) is None


# The table of the reference, but for what follows further below.
@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ([], None),
        ({}, None),
        ("null", None),
        ([">=", "$free_ram_mb", 1024], None),
        (
            ["not", "$service.disabled"],
            'does not meet ["not", "$service.disabled"]: $service.disabled is True',
        ),
        (["and", ["not", "$unknown"]], 'does not meet ["not", "$unknown"]: $unknown is unknown'),
        (["not", True, False, True, False], None),
        (["not", True, True, True], 'does not meet ["not", true, true, true]'),
        (["=", "$unknown", 5], 'does not meet ["=", "$unknown", 5]: $unknown is unknown'),
        (["<", 1, 3, 2], None),
        (["<", 2, 1, 3], 'does not meet ["<", 2, 1, 3]'),
        (["in", "$hypervisor_type", "QEMU", "KVM"], None),
        (
            ["=", "$stats.num_instances", 3],
            'does not meet ["=", "$stats.num_instances", 3]: $stats.num_instances is \'3\'',
        ),
        (["=", "$stats.num_instances", "3"], None),
        (["=", 1, True], None),
        (["=", "$........", 1], 'does not meet ["=", "$........", 1]: $........ is unknown'),
        # Operators without arguments, however deep.
        (
            ["or", ["and", ["or", ["and", ["not"], ["in"]]]]],
            'does not meet ["or", ["and", ["or", ["and", ["not"], ["in"]]]]]',
        ),
    ],
)
def test_worked_cases(query, reason):
    assert verdict(query) == reason


# The reference's section 5.31: what Nova gets wrong or fails at.
@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (
            ["and", [">=", "$free_ram_mb", 1024], ["not", "$service.disabled"]],
            'does not meet ["not", "$service.disabled"]: $service.disabled is True',
        ),
        (["and", ["not", True]], 'does not meet ["not", true]'),
        (["not", ["not", True]], None),
        (["not", ["not", "$unknown"]], 'does not meet ["not", ["not", "$unknown"]]: $unknown is'),
        (["=", "$unknown", 5, 5], 'does not meet ["=", "$unknown", 5, 5]: $unknown is unknown'),
        (["=", "$........", 1, 1], 'does not meet ["=", "$........", 1, 1]: $........ is'),
        (["=", "$foo", 2, 2], 'does not meet ["=", "$foo", 2, 2]: $foo is unknown'),
        (["not", ["=", "$unknown", 5]], None),
        (["and", "$unknown", True], 'does not meet "$unknown": $unknown is unknown'),
        ([">=", "$free_ram_mb", "1024"], 'does not meet [">=", "$free_ram_mb", "1024"]: $free'),
        (["<", "$stats.num_instances", "$free_ram_mb"], 'does not meet ["<", "$stats.num_inst'),
        (["=", "$free_ram_mb.x", 2048], 'does not meet ["=", "$free_ram_mb.x", 2048]: $free_ram'),
        (["not", "$supported_instances.x"], 'does not meet ["not", "$supported_instances.x"]: '),
        (["in", "$hypervisor_type", ["QEMU", "KVM"]], None),
        (["in", "$hypervisor_type", ["KVM"]], 'does not meet ["in", "$hypervisor_type", ["KVM"]]'),
    ],
)
def test_what_is_evidently_meant(query, reason):
    found = verdict(query)
    assert found == reason if reason is None else found.startswith(reason)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (["and"], True),
        (["or"], False),
        (["not"], False),
        (["not", ["not"]], True),
        (["and", []], True),
        (["not", []], False),
        (["="], False),
        ([">=", 5], False),
        (["in"], False),
        (["in", 5], False),
        (["in", 1, []], False),
        (["or", "$unknown"], False),
        (["or", "$unknown", True], True),
        (["or", ["=", 1, 2], "$hypervisor_type"], True),
        (["not", True, "$unknown"], False),
        (["not", False, "$unknown"], True),
        (["not", 0], True),
        (["not", ""], False),
        (["and", ""], False),
        (["and", None], False),
        (["and", "text", 1.5, True], True),
        (["and", "$stats.empty"], False),
        (["not", "$stats.empty"], True),
        (["not", "$stats.nothing"], False),
        (["=", "$stats.rack.row", 7], True),
        (["=", "$stats.rack.row.more", 7], False),
        (["and", "$stats"], True),
        (["=", "$stats", "$stats"], False),
        (["<", "a", "b", "aa"], True),
        (["<", "$hypervisor_type", "R"], True),
        (["<", "R", "$hypervisor_type"], False),
        ([">", "R", "$hypervisor_type"], True),
        (["<=", "QEMU", "$hypervisor_type"], True),
        ([">=", "QEMU", "$hypervisor_type"], True),
        (["=", "$host", "$nodename"], True),
        (["<", "$host", "$nodename"], False),
        (["=", "$host", "$stats.num_instances"], False),
        (["=", "$stats.empty", "$stats.unknown"], False),
        (["=", "$vcpus_used", 0, False], True),
        (["<", "$vcpus_used", "$vcpus_total", "$free_ram_mb"], True),
        (["=", ["not", False], True], True),
        (["=", ["=", 1, 2], 0], True),
        (["=", ["not", "$unknown"], 0], False),
        (["=", 10**400, "$vcpus_total"], False),
        ([">", 10**400, "$vcpus_total"], True),
        (["<", -(10**400), "$vcpus_total"], True),
        (["in", "$vcpus_total", 3, 4.0], True),
        (["in", "$vcpus_total", [3, [5, 4]]], True),
        (["in", "$vcpus_total", ["4"]], False),
        (["in", "$unknown", 5, 5], False),
        (["in", "$hypervisor_type", "$unknown", "QEMU"], True),
        (["in", "QEMU", ["KVM", "$hypervisor_type"]], True),
        (["in", "QEMU", "QEMU"], True),
        (["in", "QEMU", 1, "KVM"], False),
        (["in", True, [["=", 1, 1]]], True),
        (["in", 1, ["not", False]], True),
        (["not", "$ratio"], False),
        (["=", "$cpu_allocation_ratio", 1], True),
    ],
)
def test_operators(query, expected):
    assert passes(query) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (["and", "$service"], True),
        (["=", "$service.host", "h1"], True),
        (["=", "$service.binary", "nova-compute"], True),
        (["=", "$service.topic", "compute"], True),
        (["=", "$service.disabled_reason", "repair"], True),
        (["not", "$service.forced_down"], True),
        (["<", "$service.heartbeat_age", 60], True),
        (["not", "$service.disabled.x"], False),
        (["not", "$service.version"], False),
        (["not", "$service.host.x"], False),
        (["and", "$instances"], True),
        (["and", "$instances.u1"], True),
        (["not", "$instances.u9"], False),
        (["not", "$instances.u1.host"], False),
        (["=", "$instances", 1], False),
        (["not", "$limits"], False),
        ([">", "$limits.vcpu", 0], False),
        (["not", "$__class__"], False),
        (["not", "$"], False),
    ],
)
def test_what_is_no_column(query, expected):
    host = the_host(disabled_reason="repair", instances=["u1"])
    host.limits["vcpu"] = 8.0
    assert passes(query, host) == expected


def test_a_host_without_instances():
    assert passes(["not", "$instances"])
    assert verdict(["and", "$instances"]) == 'does not meet "$instances": $instances is 0'
    assert verdict(["and", "$instances.u1"]).endswith("$instances.u1 is unknown")


def test_a_ratio_that_nobody_reported_is_unknown():
    host = the_host(cpu_allocation_ratio=None, stats={"odd": float("nan")})
    for name in ("$cpu_allocation_ratio", "$stats.odd"):
        assert not passes([">=", name, 0], host)
        assert not passes(["not", name], host)
        assert not passes(["and", name], host)


def test_nothing_asked_is_nothing_to_judge():
    for hints in ({}, {"query": [""]}, {"query": []}):
        spec = a_request(scheduler_hints=hints)
        assert not RULE.applies(spec)
        assert RULE.mask(the_host().table, spec).tolist() == [True]
        assert RULE.host_passes(the_host(), spec)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (["!=", 1, 2], f'query[0]: "!=" is not an operator; known are {KNOWN}'),
        (["AND", True], f'query[0]: "AND" is not an operator; known are {KNOWN}'),
        ([["=", 1, 1]], f"query[0]: a list is not an operator; known are {KNOWN}"),
        ([{}], f"query[0]: an object is not an operator; known are {KNOWN}"),
        ([None], f"query[0]: null is not an operator; known are {KNOWN}"),
        (
            ["and", True, ["or", ["x"]]],
            f'query[2][1][0]: "x" is not an operator; known are {KNOWN}',
        ),
        (["in", ["a"], "a"], f'query[1][0]: "a" is not an operator; known are {KNOWN}'),
        (["in", "a", ["b", ["in", {}]]], "query[2][1][1]: an object cannot be an argument"),
        (["=", {"a": 1}, 1], "query[1]: an object cannot be an argument"),
        (["in", "a", {}], "query[2]: an object cannot be an argument"),
        ("5", 'query: 5 is not a query, which is a list such as ["=", 1, 1]'),
        ("true", 'query: true is not a query, which is a list such as ["=", 1, 1]'),
        ("0", 'query: 0 is not a query, which is a list such as ["=", 1, 1]'),
        ('"abc"', 'query: "abc" is not a query, which is a list such as ["=", 1, 1]'),
        ('{"a": 1}', 'query: an object is not a query, which is a list such as ["=", 1, 1]'),
        ("[nonsense", "query: is not JSON: Expecting value: line 1 column 2 (char 1)"),
        (" ", "query: is not JSON: Expecting value: line 1 column 2 (char 1)"),
        ('["=", NaN, 1]', "query: is not JSON: NaN is not in the language of queries"),
        ("[" * 100_000, f"query: is longer than {MAX_CHARACTERS} characters"),
        ("[" * 50_000, f"query: is nested deeper than {MAX_LEVELS} levels"),
        ("[1" + "0" * 5000 + "]", "query: is not JSON: Exceeds the limit"),
        (["=", *["$host"] * 65], f"query: names 65 variables, at most {MAX_VARIABLES} are allowed"),
    ],
)
def test_what_is_no_query_refuses_every_host(query, reason):
    spec = asking(query)
    table = hosts_with("free_ram_mb", {"h1": 1, "h2": 2})
    assert RULE.mask(table, spec).tolist() == [False, False]
    assert verdict(query).startswith(reason)
    assert len(verdict(query)) < 250


def test_one_query_only():
    spec = asking(["=", 1, 1], ["=", 1, 1])
    assert not RULE.host_passes(the_host(), spec)
    assert (
        RULE.reason(the_host(), spec) == "query: 2 queries are given, but only one query is allowed"
    )
    spec = a_request(scheduler_hints={"query": [["=", 1, 1]]})
    assert (
        RULE.reason(the_host(), spec) == "query: 3 queries are given, but only one query is allowed"
    )
    spec = a_request(scheduler_hints={"query": [7]})
    assert RULE.reason(the_host(), spec) == "query: is not a text"


def nested(levels, operator="and", innermost=True):
    query = innermost
    for _ in range(levels):
        query = [operator, query]
    return query


def test_nesting_has_an_end():
    assert passes(nested(MAX_LEVELS))
    assert passes(["in", 1, nested(MAX_LEVELS - 1, innermost=1)])
    for query in (nested(MAX_LEVELS + 1), ["in", 1, nested(MAX_LEVELS, 1, 1)]):
        assert verdict(query).endswith(f": is nested deeper than {MAX_LEVELS} levels")
        assert len(verdict(query)) < 300
    # Not fewer operators, and not one that a parser without a bound would stumble on.
    assert verdict(nested(900)).endswith(f": is nested deeper than {MAX_LEVELS} levels")


def test_the_reason_is_one_short_line_about_the_part_that_fails():
    host = the_host(stats={"a": "x\ny" * 999, "b": 1 << 99})
    cut = "'" + "x\\ny" * 13 + "x...'"
    query = ["and", ["=", 1, 1], ["and", ["or", ["=", "$stats.a", "a\nb"], ["=", "$stats.b", 2]]]]
    assert verdict(query, host) == (
        'does not meet ["or", ["=", "$stats.a", "a\\nb"], ["=", "$stats.b", 2]]:'
        f" $stats.a is {cut}, $stats.b is a 100-bit number"
    )
    many = ["or", *(["=", f"$stats.{'k' * 99}{each}", "z" * 999] for each in range(9))]
    reason = verdict(many, host)
    assert reason.endswith("kkk... is unknown, and 4 more")
    assert len(reason) < 700
    # Nobody should ask, and a host may have changed since it was refused.
    assert RULE.reason(host, asking(["and", 1])) == 'does not meet ["and", 1]'


def test_a_variable_that_appears_twice_is_named_once():
    query = ["or", ["=", "$free_ram_mb", 1], ["=", "$free_ram_mb", 2]]
    assert verdict(query).endswith("]]: $free_ram_mb is 2048")


def test_changes_between_requests_are_seen():
    table = hosts_with("stats", {"h1": {"gpu": "1"}, "h2": {"gpu": "2"}, "h3": None})
    for query in (["=", "$stats.gpu", "2"], ["in", "$stats.gpu", ["2", "3"]]):
        assert RULE.mask(table, asking(query)).tolist() == [False, True, False]
    table.set(0, "stats", {"gpu": "2"})
    for query in (["=", "$stats.gpu", "2"], ["in", "$stats.gpu", ["2", "3"]]):
        assert RULE.mask(table, asking(query)).tolist() == [True, True, False]


def test_other_questions_about_the_same_hosts_get_answers_of_their_own():
    table = hosts_with("stats", {"h1": {"a": "1", "b": "2"}, "h2": {"a": "2", "b": "1"}})
    for query, expected in (
        (["in", "$stats.a", ["1"]], [True, False]),
        (["in", "$stats.a", ["2"]], [False, True]),
        (["in", "$stats.b", ["2"]], [True, False]),
        (["=", "$stats.b", "1"], [False, True]),
        ([">", "$stats.b", "1"], [True, False]),
        ([">=", "$stats.b", "1"], [True, True]),
    ):
        assert RULE.mask(table, asking(query)).tolist() == expected


def test_an_instance_that_was_just_placed_counts():
    table = a_table(the_host(), a_host("h2"))
    HostState.of(table, 1).consume_from_request(a_request())
    assert RULE.mask(table, asking(["not", "$instances"])).tolist() == [True, False]


COMPARED = {
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


def meaning(query, host):
    """Return what a query means for one host, None for unknown: the rules, host by host."""
    if isinstance(query, str):
        first, *rest = query[1:].split(".") if query.startswith("$") else [None]
        value = getattr(host, first, None) if first else query or None
        for key in rest:
            value = value.get(key) if isinstance(value, dict) else None
        return value
    if not isinstance(query, list):
        return query
    name, *arguments = query or ["and"]
    values = [meaning(each, host) for each in arguments]
    if name in ("and", "or", "not"):
        truths = [None if each is None else bool(each) != (name == "not") for each in values]
        decisive = name != "and"
        if decisive in truths:
            return decisive
        return None if None in truths else not decisive

    def holds(one, other):
        texts = [isinstance(each, str) for each in (one, other)]
        numbers = [isinstance(each, (int, float)) for each in (one, other)]
        return (all(texts) or all(numbers)) and COMPARED[name if name != "in" else "="](one, other)

    found = [holds(values[0], each) for each in values[1:]] if values else []
    return any(found) if name == "in" else bool(found) and all(found)


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 3),
    st.just(1.5),
    st.sampled_from(["", "a", "b", "1", "h1", "n1"]),
)
VARIABLES = st.sampled_from(
    [
        "$free_ram_mb",
        "$vcpus_used",
        "$service_disabled",
        "$cpu_allocation_ratio",
        "$host",
        "$nodename",
        "$hypervisor_type",
        "$hypervisor_version",
        "$stats",
        "$stats.a",
        "$stats.b",
        "$stats.a.b",
        "$unknown",
        "$free_ram_mb.x",
        "$service.disabled",
        "$service.forced_down",
        "$service.disabled_reason",
        "$service.binary",
    ]
)
QUERIES = st.recursive(
    VARIABLES | SCALARS,
    lambda parts: st.builds(
        lambda name, arguments: [name, *arguments],
        st.sampled_from([*COMPARED, "in", "and", "or", "not"]),
        st.lists(parts, max_size=4),
    ),
    max_leaves=12,
).filter(lambda each: isinstance(each, list))
HOSTS = st.builds(
    a_host,
    st.sampled_from(["h1", "h2"]),
    st.sampled_from(["n1", "h1"]),
    free_ram_mb=st.integers(-1, 2),
    vcpus_used=st.integers(0, 2),
    service_disabled=st.booleans(),
    forced_down=st.booleans(),
    disabled_reason=st.none() | st.just("a"),
    cpu_allocation_ratio=st.none() | st.sampled_from([0.0, 1.0, 1.5]),
    hypervisor_type=st.none() | st.sampled_from(["", "a", "b"]),
    hypervisor_version=st.none() | st.integers(0, 2),
    stats=st.none()
    | st.dictionaries(st.sampled_from("ab"), SCALARS | st.just({"b": 1}), max_size=2),
)


@given(QUERIES, st.lists(HOSTS, min_size=1, max_size=4, unique_by=lambda h: (h.host, h.nodename)))
def test_a_query_means_for_all_hosts_what_it_means_for_each(query, hosts):
    spec, table = asking(query), a_table(*hosts)
    expected = [bool(meaning(query, host)) for host in hosts]
    assert RULE.mask(table, spec).tolist() == expected
    assert [RULE.host_passes(host, spec) for host in hosts] == expected
    for host, keep in zip(hosts, expected, strict=True):
        if not keep:
            assert RULE.reason(host, spec).startswith("does not meet ")
            assert "\n" not in RULE.reason(host, spec)


@given(st.text() | st.recursive(SCALARS, st.lists).map(json.dumps))
def test_no_text_makes_it_fail(text):
    spec = asking(text) if text else a_request()
    if not RULE.host_passes(the_host(), spec):
        assert RULE.reason(the_host(), spec)
