# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.filters.compute_capabilities."""

import json

import pytest

from scheduler.filters.compute_capabilities import ComputeCapabilitiesFilter
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
        ("capabilities:service:binary", "nova-compute", None),
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
    assert RULE.columns_read(spec) == ("cpu_info", "stats")
    assert RULE.mask(hosts, spec).tolist() == [True, False, False, True]


def test_limits_and_the_service_are_looked_at_host_by_host():
    for name in ("limits", "service"):
        assert RULE.columns_read(a_request(extra_specs={f"capabilities:{name}:x": "1"})) is None
