# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.filters.compute_capabilities."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.filters.compute_capabilities import ComputeCapabilitiesFilter
from scheduler.hosts.columns import NUMBERS, OBJECTS
from tests.builders import a_request
from tests.hosts import a_host, a_table, in_aggregates

CPU = {
    "vendor": "Intel",
    "features": ["aes", "sse"],
    "topology": {"cores": 4},
    "maxphysaddr": {"bits": 46},
}
RULE = ComputeCapabilitiesFilter()


def the_host(**changes):
    host = a_host(
        **{
            "free_ram_mb": 2048,
            "hypervisor_type": "QEMU",
            "stats": {"gpu": "2", "nul": None},
            "cpu_info": json.dumps(CPU),
        }
        | changes
    )
    host.limits["vcpu"] = 8.0
    return host


def verdict(host, extra_specs):
    """Return None when the host passes, else the reason; the mask has to agree."""
    spec = a_request(extra_specs=extra_specs)
    passes = RULE.host_passes(host, spec)
    host.table.candidates = host.table.present
    assert RULE.mask(host.table, spec)[0] == passes
    return None if passes else RULE.reason(host, spec)


@pytest.mark.parametrize(
    ("key", "requirement", "reason"),
    [
        ("free_ram_mb", ">= 1024", None),
        (
            "capabilities:free_ram_mb",
            ">= 4096",
            "capabilities:free_ram_mb must be '>= 4096' and is '2048'",
        ),
        ("gpu", "2", None),
        ("gpu", "3", "gpu must be '3' and is '2'"),
        ("capabilities:gpu", ">= 1", None),
        ("capabilities:stats:gpu", "2", None),
        ("nope", "1", None),
        ("capabilities:nope", "1", "capabilities:nope must be '1' and is None"),
        ("nul", "None", "nul must be 'None' and is None"),
        ("capabilities:cpu_info:vendor", "Intel", None),
        (
            "capabilities:cpu_info:vendor",
            "intel",
            "capabilities:cpu_info:vendor must be 'intel' and is 'Intel'",
        ),
        ("capabilities:cpu_info:features", "<all-in> aes sse", None),
        ("capabilities:cpu_info:topology:cores", ">= 4", None),
        (
            "capabilities:cpu_info:features:0",
            "aes",
            "capabilities:cpu_info:features:0 must be 'aes' and is None",
        ),
        ("hypervisor_type", "s== QEMU", None),
        ("uuid", "x", "uuid must be 'x' and is None"),
        ("CAPABILITIES:gpu", "9", None),
        ("trait:HW_CPU_X86_AVX", "required", None),
        ("capabilities:limits:vcpu", "8.0", None),
        (
            "capabilities:limits:vcpu",
            ">= 9",
            "capabilities:limits:vcpu must be '>= 9' and is '8.0'",
        ),
        ("capabilities:service", "<in> nova-compute", None),
        ("hw:maxphysaddr_bits", "46", None),
        ("hw:maxphysaddr_bits", "47", "hw:maxphysaddr_bits must be '>= 47' and is '46'"),
        ("capabilities", "x", None),
        ("capabilities:", "x", "capabilities: must be 'x' and is None"),
    ],
)
def test_worked_cases(key, requirement, reason):
    assert verdict(the_host(), {key: requirement}) == reason


def test_a_number_asked_of_a_text_is_not_met():
    # Nova fails the whole request with a ValueError.
    reason = verdict(the_host(), {"hypervisor_type": "= QEMU"})
    assert reason == "hypervisor_type must be '= QEMU' and is 'QEMU'"


@pytest.mark.parametrize("method", ["update", "consume_from_request", "table"])
def test_names_of_methods_are_no_attributes(method):
    # Nova compares an unscoped extra spec with whatever its host object has under that name.
    assert verdict(the_host(), {method: "x"}) is None


OF_NOVA = [
    "host",
    "nodename",
    "limits",
    "instances",
    "aggregates",
    "metrics",
    "updated",
    "stats",
    "service",
    "cell_uuid",
    "uuid",
    "total_usable_ram_mb",
    "free_ram_mb",
    "total_usable_disk_gb",
    "free_disk_mb",
    "disk_mb_used",
    "vcpus_total",
    "vcpus_used",
    "num_instances",
    "num_io_ops",
    "failed_builds",
    "host_ip",
    "hypervisor_type",
    "hypervisor_version",
    "hypervisor_hostname",
    "cpu_info",
    "supported_instances",
    "numa_topology",
    "pci_stats",
    "cpu_allocation_ratio",
    "ram_allocation_ratio",
    "disk_allocation_ratio",
]


@pytest.mark.parametrize("name", OF_NOVA)
def test_without_a_scope_the_attributes_of_nova_s_hosts_count(name):
    found = verdict(the_host(), {name: "no such value"})
    assert found.startswith(f"{name} must be 'no such value' and is ")


@pytest.mark.parametrize(
    "name", sorted((NUMBERS | frozenset(OBJECTS) | {"limits", "instances", "service"}) - {*OF_NOVA})
)
def test_without_a_scope_other_attributes_are_somebody_else_s_keys(name):
    # In Nova a flavor may have them for AggregateInstanceExtraSpecsFilter.
    assert verdict(the_host(), {name: "no such value"}) is None
    assert verdict(the_host(stats={name: "2"}), {name: "2"}) is None
    assert verdict(the_host(stats={name: "2"}), {name: "3"}) == f"{name} must be '3' and is '2'"
    key = f"capabilities:{name}"
    assert verdict(the_host(), {key: "no such value"}).startswith(f"{key} must be 'no such value'")


@pytest.mark.parametrize("cpu_info", ["", "no JSON", None, "[1]", "7", '"text"'])
def test_cpu_info_that_cannot_be_read_meets_nothing(cpu_info):
    host = the_host(cpu_info=cpu_info)
    assert verdict(host, {"capabilities:cpu_info:vendor": "Intel"}).endswith("and is None")
    # Contrast with ImagePropertiesFilter, which passes a host that does not say.
    assert verdict(host, {"hw:maxphysaddr_bits": "40"}).endswith("must be '>= 40' and is None")


def test_all_extra_specs_have_to_be_met_and_all_that_are_not_are_named():
    extra_specs = {"gpu": "3", "free_ram_mb": ">= 1", "capabilities:nope": "1"}
    assert verdict(the_host(), extra_specs) == (
        "gpu must be '3' and is '2'; capabilities:nope must be '1' and is None"
    )


@pytest.mark.parametrize("extra_specs", [{}, None, {"trait:X": "required"}])
def test_a_flavor_that_asks_nothing_of_hosts_lets_all_pass(extra_specs):
    spec = a_request(extra_specs=extra_specs)
    assert not RULE.applies(spec)
    assert RULE.host_passes(the_host(), spec)


def test_a_host_without_statistics():
    assert verdict(the_host(stats=None), {"gpu": "2"}) is None
    assert verdict(the_host(stats=None), {"capabilities:gpu": "2"}) is not None


def test_instances_and_aggregates_are_attributes_like_others():
    zone = in_aggregates("availability_zone", ["z"])
    host = the_host(instances=["u1"], aggregates=zone)
    assert verdict(host, {"capabilities:aggregates": "<in> 'z'"}) is None
    assert verdict(host, {"capabilities:instances:u1": "<in> uuid='u1'"}) is None
    assert verdict(host, {"capabilities:instances:u2": "x"}) is not None


def test_a_mask_tells_hosts_apart_by_all_that_is_read():
    hosts = a_table(
        the_host(host="h1"),
        the_host(host="h2", stats={"gpu": "1"}),
        the_host(host="h3", cpu_info='{"vendor": "AMD"}'),
        the_host(host="h4"),
    )
    spec = a_request(extra_specs={"gpu": ">= 2", "capabilities:cpu_info:vendor": "Intel"})
    assert RULE.mask(hosts, spec).tolist() == [True, False, False, True]
    spec = a_request(extra_specs={"gpu": "<= 1", "capabilities:cpu_info:vendor": "Intel"})
    assert RULE.mask(hosts, spec).tolist() == [False, True, False, False]


def test_what_is_no_column_is_looked_at_host_by_host():
    hosts = a_table(the_host(host="h1"), the_host(host="h2", service_disabled=True))
    hosts.limits.vcpu = np.array([8.0, 9.0])
    for key, requirement in (("service", "<in> True"), ("limits:vcpu", ">= 9")):
        spec = a_request(extra_specs={f"capabilities:{key}": requirement, "gpu": "2"})
        assert RULE.mask(hosts, spec).tolist() == [False, True]


@pytest.mark.parametrize(
    ("stats", "key", "passes"),
    [
        ({"gpu": 2}, "gpu", True),
        ({"gpu": {"count": 2}}, "gpu:count", True),
        ({"gpu": '{"count": "2"}'}, "gpu:count", True),
        ({"gpu": {"count": [2]}}, "gpu:count", False),
        ({"gpu": 2}, "gpu:count", False),
        ("nonsense", "gpu", False),
        (["gpu"], "gpu", False),
    ],
)
def test_statistics_may_hold_numbers_mappings_and_nonsense(stats, key, passes):
    assert (verdict(the_host(stats=stats), {f"capabilities:{key}": "2"}) is None) == passes


def test_what_an_attribute_does_not_have_is_looked_for_in_the_statistics():
    stats = {"cpu_allocation_ratio": "30", "uuid": {"a": "30"}, "host_ip": "30"}
    of_ratio = "capabilities:cpu_allocation_ratio"
    for key, ratio, reason in (
        (of_ratio, 30.0, None),
        (of_ratio, None, None),
        (of_ratio, 29.0, f"{of_ratio} must be '>= 30' and is '29.0'"),
        ("capabilities:uuid:a", None, None),
        ("host_ip", None, None),
    ):
        host = the_host(stats=stats, cpu_allocation_ratio=ratio)
        assert verdict(host, {key: ">= 30"}) == reason
    # A number has no parts, whether or not there is one.
    for ratio in (None, 30.0):
        host = the_host(stats=stats, cpu_allocation_ratio=ratio)
        assert verdict(host, {f"{of_ratio}:x": ">= 30"}) is not None


@pytest.mark.parametrize(
    ("key", "requirement"),
    [
        ("service:binary", "nova-compute"),
        ("service:disabled", "False"),
        ("service:data:binary", "nova-compute"),
        ("forced_down", "False"),
        ("generation", ">= 0"),
        ("heartbeat_age", ">= 0"),
        ("unserved", "False"),
    ],
)
def test_what_nova_s_filter_does_not_find_on_a_host_is_not_met(key, requirement):
    key = f"capabilities:{key}"
    reason = verdict(the_host(generation=3, heartbeat_age=30.0), {key: requirement})
    assert reason == f"{key} must be {requirement!r} and is None"


def test_the_bits_of_addresses_have_one_extra_spec_that_overrides_the_other():
    asked = {"capabilities:cpu_info:maxphysaddr:bits": "39", "hw:maxphysaddr_bits": "46"}
    assert verdict(the_host(), asked) is None
    assert verdict(the_host(), {"capabilities:cpu_info:maxphysaddr:bits": "39"}) is not None


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a": ' * 100_000, "9" * 5000, '{"a": ' + "9" * 5000 + "}"]
)
def test_cpu_info_that_is_nested_too_deeply_or_too_large_meets_nothing(text):
    for path in ("a", "a:a", "a:a:a"):
        assert verdict(the_host(cpu_info=text), {f"capabilities:cpu_info:{path}": "1"})


def test_a_value_that_cannot_be_shown_meets_nothing():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    assert (
        verdict(the_host(stats={"gpu": deep}), {"gpu": "s!= x"})
        == "gpu must be 's!= x' and is None"
    )


KEYS = ["free_ram_mb", "vcpus_total", "cpu_allocation_ratio", "heartbeat_age", "service_disabled"]
OPERATORS = [
    "",
    "= ",
    "== ",
    "!= ",
    ">= ",
    "s== ",
    "s!= ",
    "s< ",
    "<in> ",
    "<all-in> ",
    "<or> 3 <or> ",
]
TEXTS = ["1", "2", "1.0", "-1", "True", "0.5", "inf", "x", "", "10"]


@given(
    st.lists(
        st.tuples(
            *[st.sampled_from([-1, 0, 1, 2, 10])] * 2,
            *[st.sampled_from([None, 0.0, 0.5, 1.0, float("inf")])] * 2,
            st.booleans(),
            st.none() | st.dictionaries(st.sampled_from(KEYS), st.sampled_from(TEXTS)),
        ),
        min_size=1,
        max_size=4,
    ),
    st.dictionaries(
        st.tuples(st.sampled_from(["", "capabilities:"]), st.sampled_from([*KEYS, "stats"])).map(
            "".join
        ),
        st.tuples(st.sampled_from(OPERATORS), st.sampled_from(TEXTS)).map("".join),
        max_size=3,
    ),
)
def test_a_mask_is_what_the_rule_says_of_each_host(kinds, extra_specs):
    names = [*KEYS, "stats"]
    hosts = [
        a_host(f"h{row}", **dict(zip(names, each, strict=True))) for row, each in enumerate(kinds)
    ]
    spec = a_request(extra_specs=extra_specs)
    mask = RULE.mask(a_table(*hosts), spec)
    assert mask.tolist() == [RULE.host_passes(each, spec) for each in hosts]
