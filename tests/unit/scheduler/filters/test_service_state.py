# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.filters.all_hosts, compute and retry."""

import pytest

from scheduler.filters.all_hosts import AllHostsFilter
from scheduler.filters.compute import ComputeFilter
from scheduler.filters.retry import RetryFilter
from scheduler.hosts.host_state import HostState
from scheduler.objects.request_spec import SchedulerRetries, TriedHost
from tests.builders import a_request
from tests.hosts import a_host, a_table


@pytest.mark.parametrize(
    "state",
    [
        {"service_disabled": True, "forced_down": True, "heartbeat_age": None},
        {"free_ram_mb": 0, "vcpus_used": 99},
    ],
)
def test_all_hosts_keeps_everybody(state):
    rule = AllHostsFilter()
    assert rule.host_passes(a_host(**state), a_request())
    assert (
        rule.mask(a_table(a_host("h1", **state), a_host("h2")), a_request()).tolist() == [True] * 2
    )
    assert not rule.run_filter_for_index(1)


def test_all_hosts_keeps_a_host_of_which_nothing_is_known():
    assert AllHostsFilter().host_passes(HostState("h1", "n1"), a_request())


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ({"heartbeat_age": 0.0}, None),
        ({"heartbeat_age": 55.0}, None),
        ({"heartbeat_age": 60.0}, None),
        ({"heartbeat_age": 60.1}, "compute service last seen 61 s ago, 60 s allowed"),
        ({"heartbeat_age": 75.0}, "compute service last seen 75 s ago, 60 s allowed"),
        # A clock so far ahead cannot be trusted; that of a minute can.
        ({"heartbeat_age": -45.0}, None),
        ({"heartbeat_age": -75.0}, "compute service last seen 75 s in the future, 60 s allowed"),
        # A row that tells neither when it was seen nor when it was created.
        ({"heartbeat_age": float("inf")}, "compute service last seen never, 60 s allowed"),
        # Nova raises for a host whose service it does not know.
        ({"heartbeat_age": None}, "compute service last seen never, 60 s allowed"),
        ({"forced_down": True}, "compute service forced down"),
        ({"service_disabled": True}, "compute service disabled: no reason given"),
        (
            {"service_disabled": True, "disabled_reason": "new disks", "heartbeat_age": 99.0},
            "compute service disabled: new disks",
        ),
    ],
)
def test_compute_worked_cases(state, reason):
    host = a_host(**state)
    passes = ComputeFilter().host_passes(host, a_request())
    assert passes == (reason is None)
    assert passes or ComputeFilter().reason(host, a_request()) == reason


def test_compute_takes_its_limit_from_the_configuration():
    host = a_host(heartbeat_age=90.0)
    assert ComputeFilter(service_down_time=90).host_passes(host, a_request())
    assert not ComputeFilter(service_down_time=89).host_passes(host, a_request())


@pytest.mark.parametrize(
    ("tried", "passes"),
    [
        (None, True),
        ([], True),
        ([("h1", "n1")], False),
        ([("h1", "n2")], True),
        ([("H1", "n1")], True),
        ([("h1", "N1")], True),
        ([("h9", "n9"), ("h1", "n1")], False),
        ([("h1", None)], True),
        ([(None, None)], True),
    ],
)
def test_retry_worked_cases(tried, passes):
    hosts = tried and [TriedHost(*place) for place in tried]
    retry = None if tried is None else SchedulerRetries(num_attempts=3, hosts=hosts)
    spec = a_request(retry=retry)
    host = a_host("h1", "n1")
    assert RetryFilter().host_passes(host, spec) == passes
    assert passes or RetryFilter().reason(host, spec) == "was tried before, this is attempt 3"
    assert RetryFilter().mask(a_table(a_host("h1", "n2"), host), spec)[1] == passes


def test_retry_s_reason_counts_the_attempts():
    spec = a_request(retry=SchedulerRetries(2, [TriedHost("h1", "h1")]))
    assert RetryFilter().reason(a_host(), spec) == "was tried before, this is attempt 2"
    assert RetryFilter().reason(a_host(), a_request()) == "was tried before, this is attempt 0"
