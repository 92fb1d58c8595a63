# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.filters.simple_cidr_affinity and host_addresses."""

from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.filters.simple_cidr_affinity import SimpleCIDRAffinityFilter
from tests.builders import a_request
from tests.hosts import a_host, hosts_with

RULE = SimpleCIDRAffinityFilter()


def a_request_near(address, cidr=None):
    hints = {"build_near_host_ip": address, "cidr": cidr}
    given_ones = {name: each for name, each in hints.items() if each is not None}
    return a_request(
        scheduler_hints={
            name: each if isinstance(each, list) else [each] for name, each in given_ones.items()
        }
    )


def verdict(host_ip, address, cidr=None):
    """Return None when a host passes, else the reason."""
    host, spec = a_host(host_ip=host_ip), a_request_near(address, cidr)
    return None if RULE.host_passes(host, spec) else RULE.reason(host, spec)


@pytest.mark.parametrize(
    ("near", "cidr", "network"),
    [
        ("10.8.1.100", None, None),
        ("10.8.1.100", "/32", "10.8.1.100/32"),
        ("10.8.2.1", None, "10.8.2.0/24"),
        ("10.8.2.1", "/16", None),
        (None, "/24", None),
        ("fe80::1", None, "fe80::/24"),
        ("fe80::1", "/0", "::/0"),
        ("10.8.1.100/25", "", None),
        ("10.8.1.200/25", "", "10.8.1.128/25"),
        ("10.8.1.100", "", "10.8.1.100/32"),
        ("10.8.2.1", "/255.255.0.0", None),
        ("1.2.3.4", "/0", None),
    ],
)
def test_worked_cases(near, cidr, network):
    reason = None if network is None else f"address '10.8.1.1' is not in {network}"
    assert verdict("10.8.1.1", near, cidr) == reason


@pytest.mark.parametrize(
    ("near", "cidr", "shown"),
    [
        ("bogus", None, "build_near_host_ip 'bogus' and cidr '/24'"),
        ("10.8.1.1", "/33", "build_near_host_ip '10.8.1.1' and cidr '/33'"),
        ("10.8.1.1", "/x", "build_near_host_ip '10.8.1.1' and cidr '/x'"),
        ("10.8.1.1/25", None, "build_near_host_ip '10.8.1.1/25' and cidr '/24'"),
        ("10.8.1.1", "/" + "9" * 5000, "build_near_host_ip '10.8.1.1' and cidr '/999"),
        (
            ["10.8.1.1", "10.8.1.2"],
            None,
            "build_near_host_ip ['10.8.1.1', '10.8.1.2'] and cidr '/24'",
        ),
        ("10.8.1.1", ["/8", "/24"], "build_near_host_ip '10.8.1.1' and cidr ['/8', '/24']"),
        ("10.8.1.1", [], "build_near_host_ip '10.8.1.1' and cidr []"),
    ],
)
def test_hints_that_raise_in_nova_are_met_by_no_host(near, cidr, shown):
    reason = verdict("10.8.1.1", near, cidr)
    assert reason.startswith(f"the hints {shown}")
    assert reason.endswith(" name no network")


def test_unlike_nova_a_length_needs_no_slash():
    # Nova takes '10.8.1.10024' for an address then.
    assert verdict("10.8.1.1", "10.8.1.100", "24") is None
    assert verdict("10.8.2.1", "10.8.1.100", "24") == "address '10.8.2.1' is not in 10.8.1.0/24"


@pytest.mark.parametrize("host_ip", [None, "", "bogus", "10.8.1", 168296705, ["10.8.1.1"]])
def test_a_host_without_an_address_is_in_no_network(host_ip):
    for near, network in (("10.8.1.1", "0.0.0.0/0"), ("fe80::1", "::/0")):
        assert verdict(host_ip, near, "/0") == f"address {host_ip!r} is not in {network}"


@pytest.mark.parametrize("hints", [{}, {"cidr": ["/8"]}, {"build_near_host_ip": []}])
def test_a_request_that_names_no_address_may_go_anywhere(hints):
    spec = a_request(scheduler_hints=hints)
    assert not RULE.applies(spec)
    assert RULE.host_passes(a_host(host_ip=None), spec)


def test_a_mask_has_each_host_s_own_verdict():
    hosts = hosts_with("host_ip", {"h1": "10.8.1.1", "h2": "10.8.2.1", "h3": None, "h4": "fe80::9"})
    assert RULE.mask(hosts, a_request_near("10.8.2.7")).tolist() == [False, True, False, False]
    assert RULE.mask(hosts, a_request_near("fe80::1", "64")).tolist() == [False] * 3 + [True]


def addresses(version):
    """Draw addresses that are often near each other."""
    bits = 32 if version == 4 else 128
    kind = st.sampled_from([0, 2**bits - 1, 2 ** (bits // 2), 2 ** (bits // 2) - 1])
    return st.tuples(kind, st.integers(0, bits - 1)).map(
        lambda drawn: ip_network((drawn[0] ^ (1 << drawn[1]), bits)).network_address
    )


ADDRESSES = addresses(4) | addresses(6)


@given(st.lists(ADDRESSES, min_size=1, max_size=4), ADDRESSES, st.data())
def test_a_host_passes_exactly_if_the_network_holds_its_address(there, near, data):
    length = data.draw(st.integers(0, near.max_prefixlen))
    hosts = hosts_with("host_ip", {f"h{row}": str(each) for row, each in enumerate(there)})
    mask = RULE.mask(hosts, a_request_near(str(near), f"/{length}"))
    network = ip_network(f"{near}/{length}", strict=False)
    assert mask.tolist() == [ip_address(each) in network for each in there]


def test_when_it_is_asked():
    assert RULE.run_filter_once_per_request
    assert not RULE.RUN_ON_REBUILD
